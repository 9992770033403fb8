35 15 1 0 0 23 1 0 0 0 0 0 
>>> print('hello '*20)
hello hello hello hello hello hello hello hello hello hello hello hello hello he
llo hello hello hello hello hello hello 
>>> for i in range(3):
...   print(i, '\033[31mred\033[m')
... 
0 [31mred
[39m1 [31mred
[39m2 [31mred
[39m>>> abQcx 
KeyboardInterrupt
>>> 'lZong long long long long long long long long long long long long long long
 long long long long long long long long long long long long long long long '   
'lZong long long long long long long long long long long long long long long lon
g long long long long long long long long long long long long long long '
>>>   print(i, '\033[31mred\033[m')                                             








