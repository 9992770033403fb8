// This library is a host inside a program that is not written in Go.
package main

import "C"

import "a.example/host/play"

//export Play
func Play() { play.Play() }

func main() {}
