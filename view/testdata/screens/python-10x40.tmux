35 6 1 0 0 9 1 0 0 0 0 0 
 long long long long long long long long
 long long long long long long long '   
'lZong long long long long long long lon
g long long long long long long long lon
g long long long long long long long lon
g long long long long long long '
>>>   print(i, '\033[31mred\033[m')     



