package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func environment(t *testing.T, name string) string {
	value := os.Getenv(name)
	if value == "" {
		t.Skip(name + " is not set")
	}
	return value
}

// rowsOf reads the first rows of a CSV and the scores that the C program gives for them.
func rowsOf(t *testing.T, bundle, table string, limit int) (rows []map[string]interface{}, want []float32) {
	file, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1 : limit+1] {
		row := map[string]interface{}{}
		for c, name := range lines[0] {
			switch {
			case name == "label":
			case name == "history":
				row[name] = strings.Split(line[c], "|")
			case numeric.MatchString(line[c]):
				row[name] = json.Number(line[c])
			default:
				row[name] = line[c]
			}
		}
		rows = append(rows, row)
	}
	text, err := exec.Command(filepath.Join(environment(t, "DPI_BIN"), "score_csv"), bundle, table).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n")[:limit] {
		x, err := strconv.ParseFloat(line, 32)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, float32(x))
	}
	return rows, want
}

var numeric = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// start runs the service as a process and waits for its address.
func start(t *testing.T, bundle string) (url string, command *exec.Cmd, lines *bufio.Scanner) {
	program := filepath.Join(t.TempDir(), "scoreservice")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command = exec.Command(program, "-bundle", bundle, "-listen", "127.0.0.1:0")
	pipe, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	lines = bufio.NewScanner(pipe)
	for lines.Scan() {
		if found := regexp.MustCompile(`listening on ([0-9.:]+),`).FindStringSubmatch(lines.Text()); found != nil {
			return "http://" + found[1], command, lines
		}
	}
	t.Fatal("the service did not start")
	return "", nil, nil
}

func post(url string, body interface{}) (int, []byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.Post(url+"/score", "application/json", bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, content, err
}

// ask scores rows[from:to] and compares the bits.
func ask(url string, rows []map[string]interface{}, want []float32, from, to int) error {
	status, content, err := post(url, map[string]interface{}{"rows": rows[from:to]})
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("status %d, %s, %v", status, content, err)
	}
	var answer response
	if err := json.Unmarshal(content, &answer); err != nil {
		return err
	}
	if len(answer.Scores) != to-from {
		return fmt.Errorf("%d scores for %d rows", len(answer.Scores), to-from)
	}
	for i, scores := range answer.Scores {
		if len(scores) != 1 || math.Float32bits(scores[0]) != math.Float32bits(want[from+i]) {
			return fmt.Errorf("row %d: %v, expected %v", from+i, scores, want[from+i])
		}
	}
	return nil
}

func TestServiceUnderLoad(t *testing.T) {
	root := environment(t, "DPI_ROOT")
	for _, name := range []string{"adult_widedeep adult", "msweb_deepfm msweb"} {
		part := strings.Fields(name)
		bundle := filepath.Join(root, "weights/demo", part[0]+".h5")
		rows, want := rowsOf(t, bundle, filepath.Join(root, "weights/demo", part[1]+"_test.csv"), 512)
		url, command, lines := start(t, bundle)
		var group sync.WaitGroup
		failures := make(chan error, 8)
		const clients, requests = 8, 100
		for c := 0; c < clients; c++ {
			group.Add(1)
			go func(c int) {
				defer group.Done()
				for n := 0; n < requests; n++ {
					from := (c*37 + n*11) % 480
					if err := ask(url, rows, want, from, from+1+n%32); err != nil {
						failures <- err
						return
					}
				}
			}(c)
		}
		group.Wait()
		close(failures)
		for err := range failures {
			t.Fatal(err)
		}
		checkEndpoints(t, url, clients*requests)
		checkRefusals(t, url)
		stop(t, url, rows, want, command, lines)
	}
}

func get(t *testing.T, url string) (int, string) {
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

func checkEndpoints(t *testing.T, url string, requests int) {
	if status, text := get(t, url+"/health"); status != http.StatusOK || !strings.Contains(text, `"status":"ok"`) {
		t.Fatal(status, text)
	}
	status, text := get(t, url+"/metrics")
	if status != http.StatusOK || !strings.Contains(text, fmt.Sprintf("dpi_http_requests_total %d\n", requests)) ||
		!strings.Contains(text, "dpi_feature_missing_total{") || !strings.Contains(text, "dpi_http_refused_total 0\n") {
		t.Fatal(status, text)
	}
}

func checkRefusals(t *testing.T, url string) {
	for _, c := range []struct {
		body     interface{}
		status   int
		contains string
	}{
		{map[string]interface{}{"rows": []map[string]interface{}{{"nothing": 1}}}, http.StatusBadRequest, "NotFound"},
		{map[string]interface{}{"rows": []map[string]interface{}{{}, {"age": []int{1}, "area": []int{1}}}}, http.StatusBadRequest, `"error"`},
		{"not an object", http.StatusBadRequest, `"error"`},
		{map[string]interface{}{"rows": make([]map[string]interface{}, maxRows+1)}, http.StatusRequestEntityTooLarge, "at most"},
	} {
		status, content, err := post(url, c.body)
		if err != nil || status != c.status || !strings.Contains(string(content), c.contains) {
			t.Fatalf("status %d, %s, %v; expected %d", status, content, err, c.status)
		}
	}
	if status, _ := get(t, url+"/score"); status != http.StatusMethodNotAllowed {
		t.Fatal(status)
	}
}

// half sends the head and half the body of a request for rows; the function it returns sends the rest and gives the answer.
func half(url string, rows []map[string]interface{}) (finish func() (*response, error), err error) {
	body, err := json.Marshal(map[string]interface{}{"rows": rows})
	if err != nil {
		return nil, err
	}
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintf(connection, "POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:len(body)/2]); err != nil {
		return nil, err
	}
	return func() (*response, error) {
		defer connection.Close()
		if _, err := connection.Write(body[len(body)/2:]); err != nil {
			return nil, err
		}
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		scores := &response{}
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("status %d", answer.StatusCode)
		}
		return scores, json.NewDecoder(answer.Body).Decode(scores)
	}, nil
}

// stop sends SIGTERM under load and while half a request is there: what was begun is answered rightly, and the process ends
// with status 0.
func stop(t *testing.T, url string, rows []map[string]interface{}, want []float32, command *exec.Cmd, lines *bufio.Scanner) {
	var group sync.WaitGroup
	wrong := make(chan error, 4)
	for c := 0; c < 4; c++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				if err := ask(url, rows, want, 0, 32); err != nil {
					if strings.Contains(err.Error(), "expected") {
						wrong <- err
					}
					return // refused or cut at the door: the service is going
				}
			}
		}()
	}
	finish, err := half(url, rows[:8])
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	text := ""
	for !strings.Contains(text, "draining") && lines.Scan() {
		text += lines.Text() + "\n"
	}
	answer, err := finish()
	if err != nil || len(answer.Scores) != 8 || math.Float32bits(answer.Scores[7][0]) != math.Float32bits(want[7]) {
		t.Fatalf("the request in flight: %v, %+v", err, answer)
	}
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	group.Wait()
	if err := command.Wait(); err != nil || !strings.Contains(text, "draining") || !strings.Contains(text, "stopped") {
		t.Fatalf("%v\n%s", err, text)
	}
	close(wrong)
	for err := range wrong {
		t.Fatal(err)
	}
}
