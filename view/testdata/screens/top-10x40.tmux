40 9 0 0 0 9 1 0 0 1 1 0 
top - 04:20:40 up 27 min,  0 user,  load
[31mTasks:[1m[39m   4 [0m[31m[49mtotal,[1m[39m   1 [0m[31m[49mrunning,[1m[39m   3 [0m[31m[49msleep
%Cpu0  : [1m[39m  0.0[0m[31m[49m/0.0  [39m   0[             ] 
[31m%Cpu1  : [1m[39m  0.0[0m[31m[49m/0.0  [39m   0[             ] 
[31mMiB Mem :[1m[39m  6.1[0m[31m[49m/24105.6  [39m[[1m[31m|[0m[39m[49m            ] 
[31mMiB Swap:[1m[39m  0.0[0m[31m[49m/0.0      [39m[             ] 

[7m[33m    PID USER      PR  NI    VIRT    RES 
[0;1m[31m[49m      1 root      20   0    9068   5252 
[0m[31m[49m      3 root      20   0    2920   1828 
