package bounded

import (
	"errors"
	"math"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Bounds of the work that one rule file may do, besides the steps of the Starlark machine. A single step can be a lot of
// work: [0] * (1 << 28), or joining a list that holds itself many times.
const (
	maxWork  = 8 << 20 // approximate number of bytes read and made
	maxBits  = 1 << 10 // of a number
	maxCalls = 50      // functions inside of each other

	// keyCost is the charge for looking for a key. Keys can be chosen so that they all have the same hash, and each must
	// then be compared with all others; this charge bounds how many there are.
	keyCost = 2 << 10
)

var (
	errTooMuch = errors.New("the file does too much work; a rule file is a list of rules")
	errNumber  = errors.New("the number is too big")
)

// work counts the work that a rule file does.
type work struct {
	left      int
	functions map[Place]int   // see rewriter
	own       map[string]bool // the functions of ours, by name, that the file may call
}

func (w *work) charge(cost int) error {
	if cost < 0 || cost > w.left {
		w.left = 0
		return errTooMuch
	}
	w.left -= cost
	return nil
}

// addTo adds the guards that the rewriter calls.
func (w *work) addTo(known starlark.StringDict) {
	for name, guard := range map[string]func(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error){
		"$call": w.call, "$operate": w.operate, "$update": w.update, "$use": w.use, "$key": w.useKey, "$join": w.join, "$repr": w.repr,
	} {
		known[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple,
			kwargs []starlark.Tuple) (starlark.Value, error) {
			return guard(thread, args, kwargs)
		})
	}
}

// weight is roughly how many bytes it takes to read or copy a value as a tree. A value that a list holds twice counts
// twice, so the weight of a small value can be huge; counting ends at the limit.
func weight(value starlark.Value, limit, depth int) int {
	sum := 32
	add := func(v starlark.Value) bool {
		if depth > 50 {
			sum = limit + 1
		} else {
			sum += weight(v, limit-sum, depth+1)
		}
		return sum <= limit
	}
	switch v := value.(type) {
	case starlark.NoneType, starlark.Bool, starlark.Float:
	case starlark.String:
		sum += len(v)
	case starlark.Bytes:
		sum += len(v)
	case starlark.Int:
		if isHuge(v) {
			return limit + 1
		}
	case *starlark.List:
		for i := 0; i < v.Len() && add(v.Index(i)); i++ {
		}
	case starlark.Tuple:
		for i := 0; i < v.Len() && add(v.Index(i)); i++ {
		}
	case *starlark.Dict:
		sum += 512
		for key, item := range v.Entries() {
			if !add(key) || !add(item) {
				break
			}
		}
	case *starlark.Set:
		sum += 512
		for element := range v.Elements() {
			if !add(element) {
				break
			}
		}
	case starlark.Callable:
	case starlark.Sequence: // a range
		if v.Len() > limit/64 {
			return limit + 1
		}
		sum += 64 * v.Len()
	default:
		return limit + 1
	}
	return min(sum, limit+1)
}

func isHuge(n starlark.Int) bool {
	_, small := n.Int64()
	return !small && n.BigInt().BitLen() > maxBits
}

// weigh charges for reading values, and returns how much it charged.
func (w *work) weigh(values ...starlark.Value) (int, error) {
	sum := 0
	for _, value := range values {
		n := weight(value, w.left, 0)
		if err := w.charge(n); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// key charges for looking for keys.
func (w *work) key(values ...starlark.Value) error {
	if _, err := w.weigh(values...); err != nil {
		return err
	}
	return w.charge(keyCost)
}

// times charges for doing something n times.
func (w *work) times(n, cost int) error {
	if n > 0 && cost > math.MaxInt/n {
		return errTooMuch
	}
	return w.charge(n * cost)
}

// made charges for the result of an operation that was cheap enough to try.
func (w *work) made(value starlark.Value, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	_, err = w.weigh(value)
	return value, err
}

func (w *work) use(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	_, err := w.weigh(args[0])
	return args[0], err
}

func (w *work) useKey(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return args[0], w.key(args[0])
}

func (w *work) repr(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if _, err := w.weigh(args[0]); err != nil {
		return nil, err
	}
	return starlark.String(args[0].String()), nil
}

// join puts the parts of an f-string together.
func (w *work) join(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if _, err := w.weigh(args...); err != nil {
		return nil, err
	}
	var all strings.Builder
	for _, part := range args {
		text, ok := starlark.AsString(part)
		if !ok {
			text = part.String()
		}
		all.WriteString(text)
	}
	return starlark.String(all.String()), nil
}

func (w *work) operate(_ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	code, _ := starlark.AsInt32(args[0])
	return w.binary(syntax.Token(code), args[1], args[2])
}

func (w *work) binary(operator syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	for _, operand := range []starlark.Value{x, y} {
		if n, ok := operand.(starlark.Int); ok && isHuge(n) {
			return nil, errNumber
		}
	}
	if _, mapping := y.(starlark.Mapping); (mapping || y.Type() == "set") && (operator == syntax.IN || operator == syntax.NOT_IN) {
		if err := w.key(x); err != nil {
			return nil, err
		}
		return starlark.Binary(operator, x, y)
	}
	both, err := w.weigh(x, y)
	if err != nil {
		return nil, err
	}
	switch operator {
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		result, err := starlark.Compare(operator, x, y)
		return starlark.Bool(result), err
	case syntax.STAR:
		err = w.repeated(x, y)
	case syntax.PERCENT:
		if format, ok := x.(starlark.String); ok {
			err = w.times(strings.Count(string(format), "%"), both)
		}
	}
	if err != nil {
		return nil, err
	}
	return w.made(starlark.Binary(operator, x, y))
}

// repeated charges for [0] * 1000, in either order.
func (w *work) repeated(x, y starlark.Value) error {
	for _, pair := range [][2]starlark.Value{{x, y}, {y, x}} {
		count, isNumber := pair[0].(starlark.Int)
		_, both := pair[1].(starlark.Int)
		if _, float := pair[1].(starlark.Float); !isNumber || both || float {
			continue
		}
		n, ok := count.Int64()
		if !ok && count.Sign() > 0 || n > maxWork {
			return errTooMuch
		}
		if n > 0 {
			return w.times(int(n), weight(pair[1], w.left, 0))
		}
	}
	return nil
}

// update is x += y and the like. Lists and dicts change in place.
func (w *work) update(thread *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	code, _ := starlark.AsInt32(args[0])
	operator, x, y := syntax.Token(code), args[1], args[2]
	method := ""
	if _, iterable := y.(starlark.Iterable); iterable && x.Type() == "list" && operator == syntax.PLUS_EQ {
		method = "extend"
	}
	if x.Type() == "dict" && y.Type() == "dict" && operator == syntax.PIPE_EQ {
		method = "update"
	}
	if method == "" {
		return w.binary(operator-syntax.PLUS_EQ+syntax.PLUS, x, y)
	}
	if _, err := w.weigh(y); err != nil {
		return nil, err
	}
	change, err := x.(starlark.HasAttrs).Attr(method)
	if err != nil {
		return nil, err
	}
	_, err = starlark.Call(thread, change, starlark.Tuple{y}, nil)
	return x, err
}
