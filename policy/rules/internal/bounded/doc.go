// Package bounded evaluates one file of Starlark within bounds of time and memory.
//
//	file := bounded.New("default.rules")
//	err := file.Run(source, starlark.StringDict{"prefix_rule": …})
//
// The Starlark machine counts steps, but a single step can be a lot of work: [0] * (1 << 28), or joining a list that holds
// itself many times. So the syntax tree is rewritten before it runs: operations, calls and what else depends on the size of a
// value go through three guards, which charge for reading the operands first. Two tables and a switch say which of them are
// read many times, or not at all. Functions of the caller are charged for reading their arguments; for any other work they
// call [File.Charge]. All limits count work and not time, so a file that is read today is read on a busy machine too.
//
// The language is Starlark with f-strings of names, as in f"{tool}-lint", without strings of bytes, numbers of more than 64
// bits, load, while and recursion. Built-in functions take no functions, whose work nobody would count.
//
// You must not assume that a file which is within the bounds stays so in another version: the cost of an operation may
// change.
package bounded
