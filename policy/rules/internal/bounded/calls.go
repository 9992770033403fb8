package bounded

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// built says how a built-in function is charged before it runs.
type built int

const (
	callRefused  built = iota
	callConstant       // reads no whole value
	callInputs         // reads its arguments
	callLinear         // reads its arguments and its receiver
	callKeyed          // looks for one key
	callMany           // looks for each argument's elements as keys, or makes many small values
	callProduct        // may repeat an argument many times
)

// builtIns are the functions and methods that a file may call, the methods by type. Any other is refused: no rule needs it,
// and its cost has not been considered.
var builtIns = kinds(map[built]string{
	callConstant: "len type bool",
	callInputs: "abs any all chr enumerate fail float int list max min ord print range " +
		"repr reversed sorted str tuple zip list.append",
	callLinear: "dict.clear dict.items dict.keys dict.popitem dict.values set.clear set.pop " +
		"list.clear list.extend list.index list.insert list.pop list.remove " +
		"string.capitalize string.count string.endswith string.find string.index string.isalnum string.isalpha string.isdigit " +
		"string.islower string.isspace string.istitle string.isupper string.lower string.lstrip string.partition " +
		"string.removeprefix string.removesuffix string.rfind string.rindex string.rpartition string.rstrip " +
		"string.startswith string.strip string.title string.upper",
	callKeyed: "dict.get dict.setdefault dict.pop set.add set.discard set.remove",
	callMany: "dict dict.update set set.difference set.intersection set.issubset set.issuperset set.symmetric_difference " +
		"set.union set.update string.rsplit string.split string.splitlines",
	callProduct: "string.format string.join string.replace",
})

func kinds(lists map[built]string) map[string]built {
	all := map[string]built{}
	for kind, names := range lists {
		for _, name := range strings.Fields(names) {
			all[name] = kind
		}
	}
	return all
}

// call is f(…).
func (w *work) call(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	called, args := args[0], args[1:]
	switch f := called.(type) {
	case *starlark.Function:
		at := f.Position()
		// Its frame is made at once, and can be as big as its text.
		if err := w.charge(128 + 32*w.functions[Place{at.Line, at.Col}]); err != nil {
			return nil, err
		}
		if thread.CallStackDepth() > 2*maxCalls { // each call of a file is two
			return nil, fmt.Errorf("more than %d functions inside of each other", maxCalls)
		}
		return starlark.Call(thread, f, args, kwargs)
	case *starlark.Builtin:
		if err := w.builtIn(f, args, kwargs); err != nil {
			return nil, err
		}
		return w.made(starlark.Call(thread, f, args, kwargs))
	}
	return nil, fmt.Errorf("a %s cannot be called", called.Type())
}

// builtIn charges for a built-in function.
func (w *work) builtIn(f *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) error {
	name, receiver := f.Name(), f.Receiver()
	if receiver != nil {
		name = receiver.Type() + "." + name
	}
	kind := builtIns[name]
	if receiver == nil && w.own[name] {
		kind = callInputs
	}
	if kind == callRefused {
		return fmt.Errorf("%s is not available in rule files", name)
	}
	values := slices.Clone([]starlark.Value(args))
	for _, pair := range kwargs {
		values = append(values, pair[1])
	}
	for _, value := range values {
		// The work of a function among the arguments would not be counted.
		if _, function := value.(starlark.Callable); function && kind != callConstant {
			return fmt.Errorf("%s does not take functions in rule files", name)
		}
		if text, ok := starlark.AsString(value); ok && name == "int" && len(text) > maxBits {
			return errNumber // reading it takes more than linear time
		}
	}
	switch kind {
	case callConstant:
		return w.charge(32)
	case callKeyed:
		return w.key(values...)
	case callInputs:
	default:
		if receiver != nil {
			values = append(values, receiver)
		}
	}
	sum, err := w.weigh(values...)
	switch {
	case err != nil:
		return err
	case kind == callMany:
		return w.times(keyCost/32, sum) // nothing weighs less than 32
	case kind == callProduct:
		return w.times(repeats(string(receiver.(starlark.String)), f.Name(), args, sum))
	}
	return nil
}

// repeats returns upper bounds for the number of insertions that a string's method makes into its result, and for the
// size of one.
func repeats(text, method string, args starlark.Tuple, sum int) (times, size int) {
	switch method {
	case "format":
		return strings.Count(text, "{"), sum
	case "join":
		if len(args) == 1 {
			return max(starlark.Len(args[0]), 0), len(text)
		}
		return 0, 0
	}
	return len(text) + 1, sum
}
