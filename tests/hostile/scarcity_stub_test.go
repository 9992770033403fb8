//go:build linux

package hostile_test

func beHost()           {}
func bePoor()           {}
func bePoorWarden()     {}
func haveFewTerminals() {}
func haveFullDisk()     {}
