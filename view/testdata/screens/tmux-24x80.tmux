2 2 1 1 0 29 1 0 0 1 1 0 
# ls /usr                                                                                           
bin  etc  games  include  lib  lib64  libexec  local  sbin  share  src
#                                     











[32m──────────────────────────────────────────────────┬─────────────────────────────────────────────────
[39m18                                                │root@box:~# printf '\033[44mblue\033[m \033(0lqqk
19                                                │\033(B\n'
20                                                │[44mblue[49m ┌──┐          
21                                                │root@box:~# 
22                                                │
23                                                │
24                                                │
25                                                │
26                                                │
27                                                │
28                                                │
29                                                │
30                                                │
root@box:~#                                       │
[30m[42m[0] 0:sh*                                                                      "box" 04:40 28-Nov-26
