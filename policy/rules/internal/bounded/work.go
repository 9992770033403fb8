package bounded

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

const (
	maxWork  = 8 << 20 // approximate number of bytes read and made
	maxBits  = 1 << 10 // of a number
	maxCalls = 50      // functions inside of each other

	// keyCost is the charge for looking for the smallest key; others cost as many times their weight. Keys can be chosen so that they
	// all have the same hash, and each must then be compared with all others; this charge bounds how many there are.
	keyCost = 2 << 10
	least   = 32 // the weight of the smallest value
)

var (
	errTooMuch = errors.New("the file does too much work; a rule file is a list of rules")
	errNumber  = errors.New("the number is too big")
)

// work counts what a file has read and made, and holds the guards that count it.
type work struct {
	left      int
	functions map[Place]int // see rewrite
}

func (w *work) charge(cost int) error {
	if cost < 0 || cost > w.left {
		w.left = 0
		return errTooMuch
	}
	w.left -= cost
	return nil
}

// times charges a cost so many times.
func (w *work) times(n, cost int) error {
	if n > 0 && cost > math.MaxInt/n {
		return errTooMuch
	}
	return w.charge(n * cost)
}

// addTo adds the guards that rewrite inserts. No name of a file can be the same as theirs.
func (w *work) addTo(known starlark.StringDict) {
	for name, guard := range map[string]func(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error){
		"$call": w.call, "$operate": w.operate, "$update": w.update, "$use": w.use, "$key": w.key,
	} {
		known[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
			kwargs []starlark.Tuple) (starlark.Value, error) {
			return guard(thread, args, kwargs)
		})
	}
	known["$str"], known["$repr"] = starlark.Universe["str"], starlark.Universe["repr"]
}

// weight is about how many bytes an operation reads of a value. What a value holds twice counts twice, as it does for a
// comparison; what can hold itself is more than the limit.
func weight(value starlark.Value, limit, depth int) int {
	sum := least
	add := func(v starlark.Value) bool {
		if sum += weight(v, limit-sum, depth+1); depth > 50 {
			sum = limit + 1
		}
		return sum <= limit
	}
	if n, ok := value.(starlark.Int); ok && isHuge(n) {
		return limit + 1
	}
	if sum > limit {
		return sum
	}
	switch v := value.(type) {
	case starlark.NoneType, starlark.Bool, starlark.Float, starlark.Int, starlark.Callable:
	case starlark.String:
		sum += len(v)
	case starlark.Bytes:
		sum += len(v)
	case *starlark.Dict:
		sum += 512 + v.Len()*v.Len() // see keyCost
		for key, item := range v.Entries() {
			if !add(key) || !add(item) {
				break
			}
		}
	case starlark.Sequence: // a list, a tuple, a set or a range
		if _, ok := v.(*starlark.Set); ok {
			sum += 512 + v.Len()*v.Len()
		}
		for element := range starlark.Elements(v) {
			if !add(element) {
				break
			}
		}
	default:
		return limit + 1
	}
	return min(sum, limit+1)
}

func isHuge(n starlark.Int) bool {
	_, small := n.Int64()
	return !small && n.BigInt().BitLen() > maxBits
}

// weigh charges for values and returns their weight.
func (w *work) weigh(values ...starlark.Value) (int, error) {
	before := w.left
	for _, value := range values {
		if err := w.charge(weight(value, w.left, 0)); err != nil {
			return 0, err
		}
	}
	return before - w.left, nil
}

// made charges for a result.
func (w *work) made(value starlark.Value, err error) (starlark.Value, error) {
	if err == nil {
		_, err = w.weigh(value)
	}
	return value, err
}

func (w *work) use(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return w.made(args[0], nil)
}

func (w *work) key(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	sum, err := w.weigh(args[0])
	if err == nil {
		err = w.times(keyCost/least, sum)
	}
	return args[0], err
}

func (w *work) operate(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	code, _ := starlark.AsInt32(args[0])
	operator, x, y := syntax.Token(code), args[1], args[2]
	if err := w.operands(operator, x, y); err != nil {
		return nil, err
	}
	switch operator {
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		result, err := starlark.Compare(operator, x, y)
		return starlark.Bool(result), err
	}
	return w.made(starlark.Binary(operator, x, y))
}

// update charges for x += y and its like, which the machine then does. A list or a dict is changed in place, without being
// read; any other operator refuses them.
func (w *work) update(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	code, _ := starlark.AsInt32(args[0])
	operator, x, y := syntax.Token(code), args[1], args[2]
	if kind := x.Type(); kind == "list" && operator == syntax.PLUS {
		x = starlark.None
	} else if kind == "dict" && operator == syntax.PIPE {
		x = starlark.None
		if n := starlark.Len(y); n > 0 {
			if err := w.times(n, keyCost); err != nil {
				return nil, err
			}
		}
	}
	return y, w.operands(operator, x, y)
}

// operands charges for what an operation reads and, if that can be more, for what it makes.
func (w *work) operands(operator syntax.Token, x, y starlark.Value) error {
	for _, operand := range []starlark.Value{x, y} {
		if n, ok := operand.(starlark.Int); ok && isHuge(n) {
			return errNumber
		}
	}
	_, mapping := y.(starlark.Mapping)
	if keyed := operator == syntax.IN || operator == syntax.NOT_IN; keyed && (mapping || y.Type() == "set") {
		_, err := w.key(nil, starlark.Tuple{x}, nil)
		return err
	}
	both, err := w.weigh(x, y)
	if format, ok := x.(starlark.String); ok && operator == syntax.PERCENT && err == nil {
		return w.times(strings.Count(string(format), "%"), both)
	}
	if operator == syntax.STAR && err == nil {
		for _, factor := range []starlark.Value{x, y} {
			if n, ok := factor.(starlark.Int); ok && x.Type() != y.Type() {
				if times, ok := n.Int64(); ok && times <= maxWork {
					err = errors.Join(err, w.times(max(int(times), 0), both))
				} else if n.Sign() > 0 {
					err = errTooMuch
				}
			}
		}
	}
	return err
}

var (
	// unread are the built-in functions that do not read all of what they are called with, or of their receiver.
	unread = words("len type bool list.append dict.get dict.setdefault dict.pop set.add set.discard set.remove")
	// many are those that look for a key, or for each element as a key, or make many small values.
	many = words("dict dict.update dict.get dict.setdefault dict.pop set set.add set.discard set.remove set.difference " +
		"set.intersection set.issubset set.issuperset set.symmetric_difference set.union set.update " +
		"string.rsplit string.split string.splitlines")
)

func words(text string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(text) {
		all[word] = true
	}
	return all
}

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

func (w *work) builtIn(f *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) error {
	name, values := f.Name(), slices.Clone(args)
	for _, pair := range kwargs {
		values = append(values, pair[1])
	}
	for _, value := range values {
		// The work of a function among the arguments would not be counted.
		if _, function := value.(starlark.Callable); function && (f.Receiver() != nil || !unread[name]) {
			return fmt.Errorf("%s does not take functions in rule files", name)
		}
		if text, ok := starlark.AsString(value); ok && name == "int" && len(text) > maxBits {
			return errNumber // reading it takes more than linear time
		}
	}
	receiver := f.Receiver()
	if receiver != nil {
		name = receiver.Type() + "." + name
		if !unread[name] {
			values = append(values, receiver)
		}
	}
	if unread[name] && receiver == nil {
		return w.charge(32)
	}
	sum, err := w.weigh(values...)
	if many[name] && err == nil {
		return w.times(keyCost/least, max(sum, least))
	}
	text, ok := receiver.(starlark.String)
	if !ok || err != nil {
		return err
	}
	switch f.Name() { // what these make can be more than what they read
	case "format":
		return w.times(strings.Count(string(text), "{"), sum)
	case "join":
		return w.times(len(args), len(text)*max(starlark.Len(values[0]), 0))
	case "replace":
		return w.times(len(text)+1, sum)
	}
	return nil
}
