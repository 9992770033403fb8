#include "textflag.h"

// Offsets in the header and in a laid-out step; see block_linux.go.
#define BLOCK 0
#define MASK  8
#define FLAGS 16
#define STACK 24
#define AT    32
#define ERRNO 40
#define PIDFD 48
#define ALIVE 56
#define WAKE  64

#define ADDRESS(n, register) \
	TBZ  $n, R21, 2(PC); \
	MOVD (register), register

// func clone(h *header) (pid, errno uintptr)
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-24
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
	CBZ  R0, begin
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

begin: // on its own stack: FP is invalid from here on, and it cannot return
	MOVD AT(R19), R20
step:
	ADD  $AT, R19, R22
	STLR R20, (R22) // who reads it finds what the steps before have done
	MOVD 0(R20), R8
	MOVD 8(R20), R0
	MOVD 16(R20), R1
	MOVD 24(R20), R2
	MOVD 32(R20), R3
	MOVD 40(R20), R4
	MOVD 48(R20), R5
	MOVD 80(R20), R21 // which arguments are addresses of words
	CBZ  R21, call
	ADDRESS(0, R0)
	ADDRESS(1, R1)
	ADDRESS(2, R2)
	ADDRESS(3, R3)
	ADDRESS(4, R4)
	ADDRESS(5, R5)
call:
	SVC
	MOVD 56(R20), R22 // the rule
	CMP  $5, R22
	BNE  keep
	CBZ  R0, child // forks
keep:
	MOVD 72(R20), R21
	MOVD R0, (R21)
	CMP  $1, R22
	BEQ  next // mayFail
	CMP  $2, R22
	BEQ  compare // mustBe
	CMP  $3, R22
	BEQ  go // goesOn
	CMN  $4095, R0
	BCS  failed
	CMP  $4, R22
	BEQ  skip // orSkip
next:
	ADD  $88, R20
	B    step
compare:
	MOVD 64(R20), R21
	CMP  R0, R21
	BEQ  next
	MOVD $-3, R0 // ESRCH
	B    failed
go:
	MOVD 64(R20), R20
	B    step
skip:
	MOVD 64(R20), R21
	CMP  R0, R21
	BEQ  next
	ADD  $88, R20
	B    next
child:
	MOVD 64(R20), R19
	B    begin
failed:
	NEG  R0, R0
	MOVD R0, ERRNO(R19)
	MOVD WAKE(R19), R0
	CBZ  R0, exit
	MOVW ZR, (R0)
	MOVD $98, R8 // futex
	MOVD $1, R1 // FUTEX_WAKE
	MOVD $1, R2
	SVC
exit:
	MOVD $94, R8 // exit_group
	MOVD $253, R0
	SVC
	B    exit

// func code() uintptr
TEXT ·code(SB),NOSPLIT|NOFRAME,$0-8
	MOVD $·clone(SB), R0
	MOVD R0, ret+0(FP)
	RET
