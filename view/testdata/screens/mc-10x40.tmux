0 4 1 1 0 9 1 0 0 1 0 1 mc [root@box]:/etc
[30m[47mignore directories:[39m                     

[30m────────────────────────────────────────
                     Content:[39m           
[90m[46m                   [30m[47m  [39m[46m                   
[30m[47mcursively            [90m[ ] Whole words[39m    
[30ms[34my[30mmlinks             [90m[ ] Regular express
hell patterns[30m        [90m[x] Case sensitive
nsitive[30m              [90m[ ] All charsets
rsets[30m                [90m[ ] First hit[39m 
