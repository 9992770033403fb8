#include "textflag.h"

// Offsets in header and in a laid out step; see slab_linux.go.
#define BLOCK 0
#define MASK  8
#define FLAGS 16
#define STACK 24
#define AT    32
#define ERRNO 40
#define PIDFD 48
#define ALIVE 56

// func bear(h *header) (pid, errno uintptr)
TEXT ·bear(SB),NOSPLIT|NOFRAME,$0-24
	MOVD h+0(FP), R19 // the kernel changes only R0

	MOVD $135, R8 // rt_sigprocmask
	MOVD $2, R0 // SIG_SETMASK
	ADD  $BLOCK, R19, R1
	ADD  $MASK, R19, R2
	MOVD $8, R3
	SVC

	MOVD $220, R8 // clone
	MOVD FLAGS(R19), R0
	MOVD STACK(R19), R1
	ADD  $PIDFD, R19, R2
	MOVD $0, R3
	ADD  $ALIVE, R19, R4
	SVC
	CBZ  R0, newborn
	MOVD R0, R20

	MOVD $135, R8
	MOVD $2, R0
	ADD  $MASK, R19, R1
	MOVD $0, R2
	MOVD $8, R3
	SVC

	CMN  $4095, R20
	BCS  refused
	MOVD R20, pid+8(FP)
	MOVD ZR, errno+16(FP)
	RET
refused:
	NEG  R20, R20
	MOVD ZR, pid+8(FP)
	MOVD R20, errno+16(FP)
	RET

newborn: // on a stack of its own: no FP any more, and no way back
	MOVD AT(R19), R20
step:
	MOVD R20, AT(R19)
	MOVD 0(R20), R8
	MOVD 8(R20), R0
	MOVD 16(R20), R1
	MOVD 24(R20), R2
	MOVD 32(R20), R3
	MOVD 40(R20), R4
	MOVD 48(R20), R5
	SVC
	MOVD 56(R20), R21 // the rule
	CMP  $1, R21
	BEQ  next // mayFail
	BHI  compare // mustBe
	CMN  $4095, R0
	BCS  failed
next:
	ADD  $72, R20
	B    step
compare:
	MOVD 64(R20), R21
	CMP  R0, R21
	BEQ  next
	MOVD $-3, R0 // ESRCH
failed:
	NEG  R0, R0
	MOVD R0, ERRNO(R19)
exit:
	MOVD $94, R8 // exit_group
	MOVD $253, R0
	SVC
	B    exit
