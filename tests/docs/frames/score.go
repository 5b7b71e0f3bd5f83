// The program around README.md's example in Go.
package main

import (
	"context"
	"fmt"
	"log"

	"dpiframe.org/dpi"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
@@
}
