// Package bounded evaluates one file of Starlark within bounds of time and memory.
//
//	file := bounded.New("default.rules")
//	err := file.Run(source, starlark.StringDict{"prefix_rule": …})
//
// The Starlark machine counts steps, but a single step can be a lot of work: [0] * (1 << 28), or joining a list that holds
// itself many times. So the syntax tree is rewritten before it runs: each operation and call whose cost depends on its
// operands becomes the call of a guard that charges for it first. Functions of the caller are charged for reading their
// arguments; for any other work they call [File.Charge].
//
// The language is Starlark with f-strings of names, as in f"{tool}-lint", without load, while and recursion. Built-in
// functions take no functions, whose work nobody would count.
//
// You must not assume that a file which is within the bounds stays so in another version: the cost of an operation may
// change.
package bounded
