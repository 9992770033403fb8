#include "textflag.h"

// func get(limit *Limit) int
TEXT ·get(SB),NOSPLIT,$0-16
	MOVQ $302, AX // prlimit64
	MOVQ $0, DI
	MOVQ $7, SI // RLIMIT_NOFILE
	MOVQ $0, DX
	MOVQ limit+0(FP), R10
	SYSCALL
	MOVQ AX, ret+8(FP)
	RET
