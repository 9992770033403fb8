5 9 1 1 0 9 1 0 0 1 1 0 
    235 [7mfunc[0m[39m[49m cancelled(ctx context.Conte
    235 xt) error {
    236         return &messages.Error{C
    236 ode: messages.ErrCancelled, Op: 
    236 "read events", Detail: context.C
    236 ause(ctx).Error(),
    237                 Like: messages.L
    237 ikeOf(ctx.Err())}
    238 }
[7m(END)
