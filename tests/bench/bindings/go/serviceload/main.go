// Keeps so many connections to a scoring service busy, each with one request at a time, and tells requests a second and latencies.
//
//	serviceload -url http://127.0.0.1:8080/score -body request.json -connections 16 -seconds 8
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"
)

func main() {
	url := flag.String("url", "", "of the service's /score")
	file := flag.String("body", "", "the request")
	connections := flag.Int("connections", 16, "requests at once")
	seconds := flag.Float64("seconds", 8, "to measure, after a quarter of that to warm up")
	flag.Parse()
	body, err := os.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *connections}}
	begin := time.Now().Add(time.Duration(*seconds / 4 * 1e9))
	end := begin.Add(time.Duration(*seconds * 1e9))
	took := make([][]time.Duration, *connections)
	var group sync.WaitGroup
	for i := range took {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for now := time.Now(); now.Before(end); {
				ask(client, *url, body)
				then := time.Now()
				if now.After(begin) {
					took[i] = append(took[i], then.Sub(now))
				}
				now = then
			}
		}(i)
	}
	group.Wait()
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	if len(all) < 100 {
		log.Fatalf("%d requests", len(all))
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) }
	text, _ := json.Marshal(map[string]float64{"per_second": float64(len(all)) / *seconds, "p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999)})
	fmt.Println(string(text))
}

// ask ends the program unless the request is scored.
func ask(client *http.Client, url string, body []byte) {
	answer, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		log.Fatalf("%s: %v: %s", answer.Status, err, text)
	}
	_ = answer.Body.Close()
}
