19 13 1 1 0 29 1 0 0 1 1 1 mc [root@box]:/etc
[30m[46m  Left     File     Command     Options     Right
[37m[44m┌<─[30m[47m /etc [37m[44m───────────────────────────────────.[^]>┐┌<─ /usr ───────────────────────────────────.[^]>┐
│[93m.n          Name           [37m│[93m Size  [37m│[93mModify time [37m││[93m.n          Name           [37m│[93m Size  [37m│[93mModify time [37m│
│[30m[46m/..                        │UP--DIR│Nov 28 03:53[37m[44m││[97m/..                        [37m│[97mUP--DIR[37m│[97mNov 28 03:53[37m│
│[97m/.java                     [37m│[97m   4096[37m│[97mJun 24  2025[37m││[97m/bin                       [37m│[97m  36864[37m│[97mNov 28 04:20[37m│
│[97m/PackageKit    [30m[47m                                                                    [97m[44m96[37m│[97mNov 28 03:53[37m│
│[97m/X11           [30m[47m ┌──────────────────────────[34m Find File [30m───────────────────────────┐ [90m[40m96[37m[44m│[97mMay  9  2025[37m│
│[97m/alternatives  [30m[47m │ Start at:                                                      │ [90m[40m88[37m[44m│[97mNov 28 03:58[37m│
│[97m/apache2       [30m[47m │ [90m[46m                                                     [30m[47m [ [34mT[30mree ] │ [90m[40m96[37m[44m│[97mNov 28 04:07[37m│
│[97m/apparmor.d    [30m[47m │ [x] Ena[34mb[30mle ignore directories:                                 │ [90m[40m96[37m[44m│[97mMay 20  2026[37m│
│[97m/apt           [30m[47m │ [90m[46m                                                              [30m[47m │ [90m[40m96[37m[44m│[97mSep 22 04:53[37m│
│[97m/bash_completio[30m[47m ├────────────────────────────────────────────────────────────────┤ [90m[40m96[37m[44m│[97mSep 22 04:54[37m│
│[97m/binfmt.d      [30m[47m │ File name:                      Content:                       │ [90m[40m96[37m[44m│[97mNov 28 04:07[37m│
│[97m/ca-certificate[30m[47m │ [90m[46m                              [30m[47m  [90m[46m                              [30m[47m │ [90m[40m96[37m[44m│[97mNov 28 04:20[37m│
│[97m/cron.d        [30m[47m │ [x] [34mF[30mind recursively            [90m[ ] Whole words[30m                │ [90m[40m96[37m[44m│[97mJun 24  2025[37m│
│[97m/cron.daily    [30m[47m │ [ ] Follow s[34my[30mmlinks             [90m[ ] Regular expression[30m         │ [90m[40m  [37m[44m│            │
│[97m/cron.weekly   [30m[47m │ [90m[x] Using shell patterns[30m        [90m[x] Case sensitive[30m             │ [90m[40m  [37m[44m│            │
│[97m/dbus-1        [30m[47m │ [90m[x] Case sensitive[30m              [90m[ ] All charsets[30m               │ [90m[40m  [37m[44m│            │
│[97m/dconf         [30m[47m │ [90m[ ] All charsets[30m                [90m[ ] First hit[30m                  │ [90m[40m  [37m[44m│            │
│[97m/debuginfod    [30m[47m │ [ ] S[34mk[30mip hidden                                                │ [90m[40m  [37m[44m│            │
│[97m/default       [30m[47m ├────────────────────────────────────────────────────────────────┤ [90m[40m  [37m[44m│            │
│[97m/dhcp          [30m[47m │                      [< [34mO[30mK >] [ [34mC[30mancel ]                       │ [90m[40m  [37m[44m│            │
│[97m/dpkg          [30m[47m └────────────────────────────────────────────────────────────────┘ [90m[40m  [37m[44m│            │
│[97m/environment.d [30m[47m                                                                    [90m[40m  [37m[44m│            │
├─────────────────[90m[40m───────────────────────────────┤├───────────────────────────────────[37m[44m─────────────┤
│UP--DIR                                         ││UP--DIR                                         │
└──────────────────────────── 237G / 252G (94%) ─┘└──────────────────────────── 237G / 252G (94%) ─┘
[39m[49mHint: Tab changes your current panel.
root@box:/etc#
[97m[40m 1[30m[46mHelp    [97m[40m 2[30m[46mMenu    [97m[40m 3[30m[46mView    [97m[40m 4[30m[46mEdit    [97m[40m 5[30m[46mCopy    [97m[40m 6[30m[46mRenMov  [97m[40m 7[30m[46mMkdir   [97m[40m 8[30m[46mDelete  [97m[40m 9[30m[46mPullDn  [97m[40m10[30m[46mQuit
