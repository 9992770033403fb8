#include "textflag.h"

// func get(limit *Limit) int
TEXT ·get(SB),NOSPLIT,$0-16
	MOVD $261, R8 // prlimit64
	MOVD $0, R0
	MOVD $7, R1 // RLIMIT_NOFILE
	MOVD $0, R2
	MOVD limit+0(FP), R3
	SVC
	MOVD R0, ret+8(FP)
	RET
