package actors

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// output is what a process has said: what no poll has taken yet, and what is remembered.
type output struct {
	unread    *ptyio.HeadTailBuffer
	log       *ptyio.OutputLog
	splitters map[messages.Stream]*ptyio.Splitter
	timer     *Timer // of held bytes
}

func newOutput() output {
	return output{unread: ptyio.NewHeadTailBuffer(ptyio.DefaultBufferSize), log: ptyio.NewOutputLog(),
		splitters: map[messages.Stream]*ptyio.Splitter{}}
}

func (o *output) splitter(stream messages.Stream) *ptyio.Splitter {
	s := o.splitters[stream]
	if s == nil {
		s = &ptyio.Splitter{}
		o.splitters[stream] = s
	}
	return s
}

// split cuts a batch into deltas.
func (o *output) split(stream messages.Stream, batch []byte, emit func(messages.Stream, []byte)) {
	o.splitter(stream).Push(batch, func(delta []byte) { emit(stream, delta) })
}

func (o *output) held(stream messages.Stream) bool { return o.splitter(stream).Pending() > 0 }

// flush is what is held back of a stream.
func (o *output) flush(stream messages.Stream) []byte {
	if s := o.splitters[stream]; s != nil {
		return s.Flush()
	}
	return nil
}

// keep remembers a delta.
func (o *output) keep(stream messages.Stream, delta []byte) (seq uint64, offset int64) {
	o.unread.Push(delta)
	return o.log.Append(stream, delta)
}
