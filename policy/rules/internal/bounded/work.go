package bounded

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

const (
	maxInside = 50 // functions or values inside of each other
	least     = 32 // the charge for the smallest value

	// search is how many times a key is charged for. Keys can be chosen so that they all have the same hash, and each must then
	// be compared with all others; this charge bounds how many there are.
	search = 100
)

var errNumber = errors.New("the number is too big")

// Charge counts work that is done so many times, in bytes that it reads or keeps. The function that does it should return
// the error.
func (f *File) Charge(times, cost int) error {
	if times > 0 && cost > f.left/times {
		f.left = 0
		return errors.New("the file does too much work; a rule file is a list of rules")
	}
	f.left -= times * cost
	return nil
}

// charge is the charge for reading a value so many times, with all that it holds. What it holds twice is read twice.
func (f *File) charge(times int, value starlark.Value) error {
	if f.inside++; f.inside > maxInside {
		return fmt.Errorf("more than %d values inside of each other", maxInside)
	}
	cost := least
	switch v := value.(type) {
	case starlark.Int:
		if _, small := v.Int64(); !small {
			return errNumber
		}
	case starlark.String:
		cost += len(v)
	case starlark.Bytes:
		cost += len(v)
	case *starlark.Set:
		cost += 512 + v.Len()*v.Len() // see search
	case *starlark.Dict:
		cost += 512 + v.Len()*v.Len()
		for _, entry := range v.Items() { // the keys come below
			if err := f.charge(times, entry[1]); err != nil {
				return err
			}
		}
	}
	if err := f.Charge(times, cost); err != nil {
		return err
	}
	if all, ok := value.(starlark.Iterable); ok {
		for part := range starlark.Elements(all) {
			if err := f.charge(times, part); err != nil {
				return err
			}
		}
	}
	f.inside--
	return nil
}

var (
	// searching are those that look for keys, make many small values, or read a number.
	searching = strings.Fields("dict dict.get dict.pop dict.setdefault dict.update dict.in dict.|= dir int set set.add set.difference " +
		"set.discard set.in set.intersection set.issubset set.issuperset set.remove set.symmetric_difference set.union set.update " +
		"string.rsplit string.split string.splitlines")
	// skipping are those that do not read all of their first operand.
	skipping = strings.Fields("dict.get dict.in dict.pop dict.setdefault dict.|= list.append list.+= set.add set.discard set.in set.remove")
)

// chargeCall charges for a function or an operation before it is done. The first operand is the receiver of a method, or what stands to the left;
// its type is in the name.
func (f *File) chargeCall(name string, operands ...starlark.Value) error {
	times := 1
	const quoted = 4 // a character may become as many, as in \x00
	text, _ := starlark.AsString(operands[0])
	switch name {
	case "bool", "len", "type": // they read nothing
		return f.Charge(1, least)
	case "fail", "print": // sep stands behind each operand
		times = quoted + len(operands)
	case "repr", "str":
		times = quoted
	case "string.%", "string.%=":
		times += quoted * strings.Count(text, "%")
	case "string.format":
		times += quoted * strings.Count(text, "{")
	case "string.join", "string.replace":
		times += len(text)
	case "string.lstrip", "string.rstrip", "string.strip": // each character is looked for among those to be removed
		if len(operands) > 1 {
			times += max(0, starlark.Len(operands[1]))
		}
	case "bytes.in", "string.count", "string.find", "string.in", "string.index", "string.partition", "string.rfind", "string.rindex", "string.rpartition":
		// Texts of 256 bytes and more can be chosen so that the one is compared with every part of the other.
		if len(operands) > 1 {
			times += starlark.Len(operands[1]) / 256
		}
	}
	if strings.HasSuffix(name, ".*") || strings.HasSuffix(name, ".*=") {
		for i, factor := range operands { // the machine refuses more than 32 bits
			if n, err := starlark.AsInt32(factor); err == nil && starlark.Len(operands[1-i]) > 0 {
				times = max(times, n)
			}
		}
	}
	if slices.Contains(searching, name) {
		times = search
	}
	if slices.Contains(skipping, name) {
		operands = operands[1:]
	}
	for _, operand := range operands {
		if err := f.charge(times, operand); err != nil {
			return err
		}
	}
	return nil
}

// read is $read(times, value), which returns the value.
func (f *File) read(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if thread.CallStackDepth() > 2*(maxInside+1) { // $call and a function are two, the file and $read two more
		return nil, fmt.Errorf("more than %d functions inside of each other", maxInside)
	}
	times, _ := starlark.AsInt32(args[0])
	return args[1], f.charge(times, args[1])
}

// operate is $operate(operator, x, y). For x += y and its like it returns y, and the machine does the rest.
func (f *File) operate(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	code, _ := starlark.AsInt32(args[0])
	operator, x, y := syntax.Token(code), args[1], args[2]
	var err error
	if operator == syntax.IN || operator == syntax.NOT_IN {
		err = f.chargeCall(y.Type()+".in", y, x)
	} else {
		err = f.chargeCall(x.Type()+"."+operator.String(), x, y)
	}
	switch {
	case err != nil || operator >= syntax.PLUS_EQ && operator <= syntax.GTGT_EQ:
		return y, err
	case operator >= syntax.LT && operator <= syntax.NEQ:
		result, err := starlark.Compare(operator, x, y)
		return starlark.Bool(result), err
	}
	return starlark.Binary(operator, x, y)
}

// call is $call(function, …).
func (f *File) call(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	called, args := args[0], args[1:]
	if b, ok := called.(*starlark.Builtin); ok {
		name, operands := b.Name(), append(starlark.Tuple{b.Receiver()}, args...)
		for _, pair := range kwargs {
			operands = append(operands, pair[1])
		}
		for _, operand := range operands {
			if _, function := operand.(starlark.Callable); function { // nobody would count its work
				return nil, fmt.Errorf("%s does not take functions in rule files", name)
			}
		}
		if b.Receiver() != nil {
			name = b.Receiver().Type() + "." + name
		}
		if err := f.chargeCall(name, operands...); err != nil {
			return nil, err
		}
	}
	return starlark.Call(thread, called, args, kwargs)
}
