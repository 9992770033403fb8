package play

import "testing"

func TestPlay(*testing.T) { Play() }
