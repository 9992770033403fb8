package ptyio

import (
	"testing"
	"time"
)

func TestATurnIsTakenAndGivenBack(t *testing.T) {
	s := &stream{credits: make(chan struct{}, 2)}
	for range cap(turns) {
		if !takeTurn(nil) {
			t.Fatal("no turn although one was free")
		}
	}
	if began := time.Now(); takeTurn(nil) || time.Since(began) < maxTurn {
		t.Fatal("a turn although all were taken, or no wait for one")
	}
	first := Output{batch: &batch{stream: s, buffer: new([MaxBatch]byte), turn: true}}
	first.Looked()
	if !takeTurn(nil) {
		t.Error("a batch that was looked at kept its turn")
	}
	second := Output{batch: &batch{stream: s, buffer: new([MaxBatch]byte), turn: true}}
	first.Release()
	if len(turns) != cap(turns) {
		t.Error("a turn was given back twice")
	}
	for range cap(turns) {
		second.Release()
		second = Output{batch: &batch{stream: s, buffer: new([MaxBatch]byte), turn: true}}
		<-s.credits
	}
	if len(turns) != 0 {
		t.Errorf("%d turns are still taken", len(turns))
	}
}

func TestAnAbandonedChildWaitsForNoTurn(t *testing.T) {
	for range cap(turns) {
		turns <- struct{}{}
	}
	defer func() {
		for range cap(turns) {
			<-turns
		}
	}()
	abandoned := make(chan struct{})
	close(abandoned)
	if takeTurn(abandoned) {
		t.Error("a turn although all were taken")
	}
}
