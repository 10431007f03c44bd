// A complete receiver:  WEBHOOK_SECRET=whsec_… go run ./server
//
// Settings, all from the environment: WEBHOOK_SECRET, WEBHOOK_SECRET_OLD (accepted too while you change over), WEBHOOK_CONTRACT
// (standard), WEBHOOK_BRAND, PORT (8000; 0 takes a free one), DATA (the folder for what was received, ./received).
//
// Answers: 2xx for a request that was handled or is known already, 4xx for one that can never be accepted, 5xx to get it again.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"posthaste.example/webhooks"
)

const bodyBytesMax = 1024 * 1024

type receiver struct {
	contract webhooks.Contract
	options  webhooks.Options
	secrets  []string
	data     string
}

// keep stores an event once. Returns false if it is stored already.
//
// Go has no database, so a file replaces the row: its name is the unique key, and Link creates it completely or not at all,
// and only if the name is free. With a database this is
//
//	CREATE TABLE received (id TEXT PRIMARY KEY, body BYTEA NOT NULL);
//	INSERT INTO received (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING; -- no row inserted: known already
//
// in one transaction with the work, if that is quick. Otherwise a worker of your own processes the received events, retries
// failures, and stores those that keep failing: your own dead letters.
func (r *receiver) keep(key string, body []byte) (isNew bool, err error) {
	draft, err := os.CreateTemp(r.data, "draft-")
	if err != nil {
		return false, err
	}
	defer os.Remove(draft.Name())
	defer draft.Close()
	if _, err := draft.Write(body); err != nil {
		return false, err
	}
	if err := draft.Sync(); err != nil {
		return false, err
	}
	err = os.Link(draft.Name(), filepath.Join(r.data, fmt.Sprintf("%x", sha256.Sum256([]byte(key)))))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) (int, string) {
	if request.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, "POST to /webhooks"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyBytesMax))
	if err != nil {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("at most %d bytes, all of them", bodyBytesMax)
	}
	verified, err := webhooks.Verify(r.contract, request.Header, body, r.secrets, &r.options)
	var refusal *webhooks.VerificationError
	if errors.As(err, &refusal) {
		status := http.StatusBadRequest
		if refusal.Reason == webhooks.Misconfigured {
			status = http.StatusInternalServerError
		}
		return status, fmt.Sprintf("%s: %s", refusal.Reason, refusal.Message)
	}
	// The body is parsed only after verification.
	key := verified.ID
	var event map[string]json.RawMessage
	err = json.Unmarshal(body, &event)
	if err == nil && key == "" {
		err = json.Unmarshal(event[verified.IDField], &key)
	}
	if err != nil || key == "" {
		return http.StatusUnprocessableEntity, "not an event that this receiver understands"
	}
	isNew, err := r.keep(key, body)
	if err != nil {
		// Any other error is on this side, so the sender should retry.
		log.Print(err)
		return http.StatusInternalServerError, "trouble here, please send it again"
	}
	if !isNew {
		return http.StatusOK, "known already"
	}
	return http.StatusOK, "received"
}

func (r *receiver) health() (int, string) {
	probe, err := os.CreateTemp(r.data, "probe-")
	if err != nil {
		return http.StatusServiceUnavailable, "cannot write"
	}
	probe.Close()
	os.Remove(probe.Name())
	return http.StatusOK, "healthy"
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	status, text := http.StatusNotFound, "POST to /webhooks"
	switch request.URL.Path {
	case "/webhooks":
		status, text = r.receive(w, request)
	case "/healthz":
		status, text = r.health()
	}
	w.Header().Set("content-type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	r := &receiver{
		contract: webhooks.Contract(setting("WEBHOOK_CONTRACT", "standard")),
		options:  webhooks.Options{Brand: os.Getenv("WEBHOOK_BRAND")},
		data:     setting("DATA", "received"),
	}
	for _, name := range []string{"WEBHOOK_SECRET", "WEBHOOK_SECRET_OLD"} {
		if secret := os.Getenv(name); secret != "" {
			r.secrets = append(r.secrets, secret)
		}
	}
	_, err := webhooks.Verify(r.contract, nil, nil, r.secrets, &r.options)
	var refusal *webhooks.VerificationError
	if errors.As(err, &refusal) && refusal.Reason == webhooks.Misconfigured {
		log.Fatalf("WEBHOOK_CONTRACT, WEBHOOK_BRAND or WEBHOOK_SECRET: %s", refusal.Message)
	}
	if err := os.MkdirAll(r.data, 0o700); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("PORT", "8000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: r, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
