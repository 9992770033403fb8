2 3 1 1 0 9 1 0 0 1 1 0 
bin    include  libexec  share          
etc    lib      local    src        
games  lib64    sbin                  
#                             
[32m────────────────────┬───────────────────
[39m28                  │ \033(0lqqk\033(B\n
29                  │'
30                  │[44mblue[49m ┌──┐
root@box:~#         │root@box:~# 
[30m[42m[0] 0:sh*          "box" 04:40 28-Nov-26
