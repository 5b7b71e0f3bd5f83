package main

import (
	"encoding/json"
	"log"
	"strconv"
	"time"

	"dpiframe.org/dpi"
)

// refusal is a version that was to serve and does not.
type refusal struct {
	Version uint64 `json:"version"` // 0: it never got a number
	Path    string `json:"path"`
	Error   string `json:"error"`
	Reason  string `json:"reason"`
}

// refusedOf is the newest version above the current one that was refused or is held back, or else the last load where that failed; nil when
// there is none. A version that serves later clears it.
func refusedOf(s dpi.EndpointStatus) *refusal {
	newest := s.LastLoad
	for _, f := range waiting(s) {
		if newest.Code == dpi.OK || f.Version > newest.Version {
			newest = f
		}
	}
	if newest.Code == dpi.OK {
		return nil
	}
	return &refusal{newest.Version, newest.Path, newest.Code.CName(), newest.Error}
}

// waiting lists the files of the followed folder that would serve, were they not refused.
func waiting(s dpi.EndpointStatus) (files []dpi.EndpointFile) {
	for _, f := range s.Follows.Refused {
		if f.Version > s.Version {
			files = append(files, f)
		}
	}
	return files
}

// versions shows which version serves, since when, and what became of others. A failure is there from the start with 0, so that Prometheus
// sees the first one too.
func (p *page) versions(s dpi.EndpointStatus) {
	var build struct {
		Version, Compiler string
	}
	_ = json.Unmarshal([]byte(dpi.BuildInfoJSON()), &build) // the library's own text
	number := strconv.FormatUint(s.Version, 10)
	p.sample("dpi_build_info", "gauge", "The library, always 1.", "", label("version", build.Version)+","+label("compiler", build.Compiler), "1")
	p.sample("dpi_model_info", "gauge", "The current version, always 1.", "", label("version", number)+","+label("digest", s.Digest), "1")
	p.sample("dpi_model_version", "gauge", "Number of the current version.", "", "", number)
	p.sample("dpi_model_since_seconds", "gauge", "When the current version began to serve, in seconds since 1970.", "", "",
		strconv.FormatFloat(float64(s.SinceMs)/1e3, 'f', 3, 64))
	const swaps, swapsHelp = "dpi_endpoint_swaps_total", "Changes of the current version, by a load or a rollback."
	p.sample(swaps, "counter", swapsHelp, "", label("kind", "load"), strconv.FormatInt(s.Loads, 10))
	p.sample(swaps, "counter", swapsHelp, "", label("kind", "rollback"), strconv.FormatInt(s.Rollbacks, 10))
	for code := dpi.InvalidArgument; code <= dpi.Internal; code++ {
		p.sample("dpi_endpoint_failed_loads_total", "counter", "Versions that were to be loaded and were refused, each try.", "",
			label("error", code.CName()), strconv.FormatInt(s.Failures[code], 10))
	}
	p.sample("dpi_endpoint_refused", "gauge", "Files of the followed folder above the current version that were refused or are held back.", "", "",
		strconv.Itoa(len(waiting(s))))
	unreadable := "0"
	if s.Follows.Code != dpi.OK {
		unreadable = "1"
	}
	p.sample("dpi_endpoint_folder_unreadable", "gauge", "1 while the followed folder cannot be read.", "", "", unreadable)
}

var levels = map[dpi.LogLevel]string{dpi.LogInfo: "info", dpi.LogWarn: "warning", dpi.LogError: "error"}

// logMessages writes what the library says of loads, swaps and refusals to the log, until the process ends.
func logMessages() {
	for ; ; time.Sleep(100 * time.Millisecond) {
		for {
			level, text, ok := dpi.DefaultEnv().PollLog()
			if !ok {
				break
			}
			log.Printf("%s: %s", levels[level], text)
		}
	}
}
