// zerofee's rule, in Go.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const toleranceSeconds = 300

func verify(header string, body []byte, secret string) error {
	var t, v1 string
	for _, part := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "t":
			t = value
		case "v1":
			v1 = value
		}
	}
	timestamp, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		return err
	}
	if math.Abs(float64(time.Now().Unix()-timestamp)) > toleranceSeconds {
		return errors.New("too old")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	if !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(v1)) {
		return errors.New("wrong signature")
	}
	return nil
}

func main() {
	portFile, secret := os.Args[1], os.Args[2]
	var mutex sync.Mutex
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		err := verify(r.Header.Get("X-ZeroFee-Signature"), body, secret)
		// net/http keeps Host and Content-Length apart from the other headers.
		headers := map[string][]string{"host": {r.Host}, "content-length": {strconv.FormatInt(r.ContentLength, 10)}}
		for name, values := range r.Header {
			headers[strings.ToLower(name)] = values
		}
		line := map[string]any{
			"accepted": err == nil, "why": nil, "method": r.Method, "path": r.URL.Path, "headers": headers, "body_base64": body,
			"parsed": nil,
		}
		if err != nil {
			line["why"] = err.Error()
		} else {
			var parsed any
			json.Unmarshal(body, &parsed)
			line["parsed"] = parsed
		}
		text, _ := json.Marshal(line)
		mutex.Lock()
		fmt.Println(string(text))
		mutex.Unlock()
		status := http.StatusOK
		if err != nil {
			status = http.StatusBadRequest
		}
		if forced := strings.TrimPrefix(r.URL.Path, "/answer/"); forced != r.URL.Path {
			status, _ = strconv.Atoi(forced)
		}
		w.WriteHeader(status)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(portFile, []byte(fmt.Sprintln(port)), 0o600); err != nil {
		panic(err)
	}
	panic(http.Serve(listener, http.HandlerFunc(handler)))
}
