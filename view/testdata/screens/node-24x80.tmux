2 20 1 0 0 23 1 0 0 0 0 0 
Welcome to Node.js v20.20.2.
Type ".help" for more information.
> [1,2,{a:'x',b:null}]
[ [33m1[39m, [33m2[39m, { a: [32m'x'[39m, b: [1mnull[0m[39m[49m } ]
> Math.m        ax(1,2)
Math.m  ax(1,2)
        ^^

Uncaught SyntaxError: Unexpected identifier 'ax'
> 'long long long long long long long long long long long long long long long lo
> X'long long long long long long long long long long long long long long long l
ong long long long long long long long long long long long long long long '
X'long long long long long long long long long long long long long long long lon
g long long long long long long long long long long long long long long '
 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

Uncaught SyntaxError: Unexpected string
> throw new Error('no')
Uncaught Error: no
> 



