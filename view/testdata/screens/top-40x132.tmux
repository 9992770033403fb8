0 39 0 0 0 39 1 0 0 1 1 0 
top - 04:20:45 up 27 min,  0 user,  load average: 29.36, 29.78, 20.38
[31mTasks:[1m[39m   4 [0m[31m[49mtotal,[1m[39m   1 [0m[31m[49mrunning,[1m[39m   3 [0m[31m[49msleeping,[1m[39m   0 [0m[31m[49mstopped,[1m[39m   0 [0m[31m[49mzombie
%Cpu0  : [1m[39m  0.0[0m[31m[49m/0.0  [39m   0[                                                                                                    ] 
[31m%Cpu1  : [1m[39m  0.0[0m[31m[49m/0.0  [39m   0[                                                                                                    ] 
[31mMiB Mem :[1m[39m  6.9[0m[31m[49m/24105.6  [39m[[1m[31m||||||[0m[31m[49m|[39m                                                                                             ] 
[31mMiB Swap:[1m[39m  0.0[0m[31m[49m/0.0      [39m[                                                                                                    ] 

[7m[33m    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND                                                      
[0;1m[31m[49m      1 root      20   0    9092   5300   3148 R   0.0   0.0   0:00.01 top -d 3                                                     
[0m[31m[49m      3 root      20   0    2920   1764   1652 S   0.0   0.0   0:00.00 sleep 300                                                    
      4 root      20   0    2920   1892   1780 S   0.0   0.0   0:00.00 sleep 300                                                    
      5 root      20   0    2920   1804   1696 S   0.0   0.0   0:00.00 sleep 300                                                    




























