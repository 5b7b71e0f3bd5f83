package dpi

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestVersionTexts(t *testing.T) {
	if err := fits(10200, 10200, "/x"); err != nil {
		t.Fatal(err)
	}
	if err := fits(10403, 10200, "/x"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ library, header uint32 }{{20200, 10200}, {10200, 10300}, {10100, 10000}, {100, 10200}} {
		err := fits(c.library, c.header, "/some/libdpi.so.1")
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "/some/libdpi.so.1") ||
			!strings.Contains(err.Error(), versionText(c.library)) {
			t.Fatal(err)
		}
	}
}

func TestGateHoldsItsLimit(t *testing.T) {
	for _, seats := range []int{1, 2, 63, 64, 130} {
		g, err := newGate(seats)
		if err != nil {
			t.Fatal(err)
		}
		var taken []*seat
		for i := 0; i < seats; i++ {
			s, closed := g.try()
			if s == nil || closed {
				t.Fatalf("seat %d of %d", i, seats)
			}
			taken = append(taken, s)
		}
		if s, _ := g.try(); s != nil {
			t.Fatal("one seat too many")
		}
		for _, s := range taken {
			g.release(s)
		}
		var inside, most atomic.Int64
		var group sync.WaitGroup
		for n := 0; n < 16; n++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for k := 0; k < 500; k++ {
					s, err := g.acquire(nil, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if now := inside.Add(1); now > most.Load() {
						most.Store(now)
					}
					inside.Add(-1)
					g.release(s)
				}
			}()
		}
		group.Wait()
		if most.Load() > int64(seats) {
			t.Fatalf("%d inside, %d seats", most.Load(), seats)
		}
		g.close()
		if _, err := g.acquire(nil, nil); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	}
}
