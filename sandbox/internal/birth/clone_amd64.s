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
	BTQ  $n, R14; \
	JCC  2(PC); \
	MOVQ (register), register

// func clone(h *header) (pid, errno uintptr)
TEXT ·clone(SB),NOSPLIT|NOFRAME,$0-24
	MOVQ h+0(FP), R12 // the kernel changes only AX, CX and R11

	MOVQ $14, AX // rt_sigprocmask
	MOVQ $2, DI // SIG_SETMASK
	LEAQ BLOCK(R12), SI
	LEAQ MASK(R12), DX
	MOVQ $8, R10
	SYSCALL

	MOVQ $56, AX // clone
	MOVQ FLAGS(R12), DI
	MOVQ STACK(R12), SI
	LEAQ PIDFD(R12), DX
	LEAQ ALIVE(R12), R10
	MOVQ $0, R8
	SYSCALL
	TESTQ AX, AX
	JEQ  begin
	MOVQ AX, R13

	MOVQ $14, AX
	MOVQ $2, DI
	LEAQ MASK(R12), SI
	MOVQ $0, DX
	MOVQ $8, R10
	SYSCALL

	CMPQ R13, $0xfffffffffffff001
	JCC  refused
	MOVQ R13, pid+8(FP)
	MOVQ $0, errno+16(FP)
	RET
refused:
	NEGQ R13
	MOVQ $0, pid+8(FP)
	MOVQ R13, errno+16(FP)
	RET

begin: // on its own stack: FP is invalid from here on, and it cannot return
	MOVQ AT(R12), BX
step:
	MOVQ BX, AT(R12)
	MOVQ 0(BX), AX
	MOVQ 8(BX), DI
	MOVQ 16(BX), SI
	MOVQ 24(BX), DX
	MOVQ 32(BX), R10
	MOVQ 40(BX), R8
	MOVQ 48(BX), R9
	MOVQ 80(BX), R14 // which arguments are addresses of words
	TESTQ R14, R14
	JEQ  call
	ADDRESS(0, DI)
	ADDRESS(1, SI)
	ADDRESS(2, DX)
	ADDRESS(3, R10)
	ADDRESS(4, R8)
	ADDRESS(5, R9)
call:
	SYSCALL
	MOVQ 56(BX), R13 // the rule
	CMPQ R13, $5
	JNE  keep
	TESTQ AX, AX
	JEQ  child // forks
keep:
	MOVQ 72(BX), R14
	MOVQ AX, (R14)
	CMPQ R13, $1
	JEQ  next // mayFail
	CMPQ R13, $2
	JEQ  compare // mustBe
	CMPQ R13, $3
	JEQ  go // goesOn
	CMPQ AX, $0xfffffffffffff001
	JCC  failed
	CMPQ R13, $4
	JEQ  skip // orSkip
next:
	ADDQ $88, BX
	JMP  step
compare:
	CMPQ AX, 64(BX)
	JEQ  next
	MOVQ $-3, AX // ESRCH
	JMP  failed
go:
	MOVQ 64(BX), BX
	JMP  step
skip:
	CMPQ AX, 64(BX)
	JEQ  next
	ADDQ $88, BX
	JMP  next
child:
	MOVQ 64(BX), R12
	JMP  begin
failed:
	NEGQ AX
	MOVQ AX, ERRNO(R12)
	MOVQ WAKE(R12), DI
	TESTQ DI, DI
	JEQ  exit
	MOVL $0, (DI)
	MOVQ $202, AX // futex
	MOVQ $1, SI // FUTEX_WAKE
	MOVQ $1, DX
	SYSCALL
exit:
	MOVQ $231, AX // exit_group
	MOVQ $253, DI
	SYSCALL
	JMP  exit

// func code() uintptr
TEXT ·code(SB),NOSPLIT|NOFRAME,$0-8
	LEAQ ·clone(SB), AX
	MOVQ AX, ret+0(FP)
	RET
