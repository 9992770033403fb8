// This library is a host inside of a program that is not Go.
package main

import "C"

import "a.example/host/play"

//export Play
func Play() { play.Play() }

func main() {}
