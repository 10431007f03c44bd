package webhooks

// cd receivers/go && go test ./...

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

type vector struct {
	Name      string
	Contract  Contract
	Brand     string
	Headers   [][2]string
	Body      []byte
	Secrets   []string
	Now       int64
	Tolerance int64
	Expect    string
	Verified  *struct {
		ID        *string
		IDField   *string `json:"id_field"`
		Timestamp *int64
	}
}

func vectors(t *testing.T) []vector {
	t.Helper()
	file, err := os.ReadFile("../vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Cases []vector }
	if err := json.Unmarshal(file, &read); err != nil {
		t.Fatal(err)
	}
	return read.Cases
}

func reasonOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	var refusal *VerificationError
	if !errors.As(err, &refusal) || len(refusal.Message) < 20 {
		t.Fatalf("%T says too little: %v", err, err)
	}
	return string(refusal.Reason)
}

func TestEveryVectorHasTheExpectedResult(t *testing.T) {
	all := vectors(t)
	for _, v := range all {
		headers := map[string][]string{}
		for _, header := range v.Headers {
			headers[header[0]] = append(headers[header[0]], header[1])
		}
		tolerance := time.Duration(v.Tolerance) * time.Second
		options := &Options{Brand: v.Brand, Now: time.Unix(v.Now, 0), Tolerance: &tolerance}
		verified, err := Verify(v.Contract, headers, v.Body, v.Secrets, options)
		if reason := reasonOf(t, err); reason != v.Expect {
			t.Errorf("%s: %s instead of %s (%v)", v.Name, reason, v.Expect, err)
			continue
		}
		if err == nil {
			text := func(text *string) string {
				if text == nil {
					return ""
				}
				return *text
			}
			expected := &Verified{ID: text(v.Verified.ID), IDField: text(v.Verified.IDField), Timestamp: v.Verified.Timestamp}
			if !reflect.DeepEqual(verified, expected) {
				t.Errorf("%s: %+v instead of %+v", v.Name, verified, expected)
			}
		}
	}
	fmt.Printf("ran %d vectors\n", len(all))
}

func TestEveryContractAndEveryReasonHasAVector(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vectors(t) {
		seen[string(v.Contract)], seen[v.Expect] = true, true
	}
	for contract := range contracts {
		if !seen[string(contract)] {
			t.Errorf("no vector for %s", contract)
		}
	}
	for _, reason := range []Reason{
		Misconfigured, MissingHeader, RepeatedHeader, MalformedID, MalformedTimestamp, MalformedSignature,
		NoUsableSignature, SignatureMismatch, TimestampTooOld, TimestampTooNew,
	} {
		if !seen[string(reason)] {
			t.Errorf("no vector for %s", reason)
		}
	}
}

func signed(body string, at int64) (http.Header, string) {
	key := []byte(strings.Repeat("k", 32))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "id.%d.%s", at, body)
	header := http.Header{}
	header.Set("Webhook-Id", "id")
	header.Set("Webhook-Timestamp", fmt.Sprint(at))
	header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return header, "whsec_" + base64.StdEncoding.EncodeToString(key)
}

func TestWithoutATimeTheClockIsUsed(t *testing.T) {
	header, secret := signed("{}", time.Now().Unix())
	if _, err := Verify(Standard, header, []byte("{}"), []string{secret}, nil); err != nil {
		t.Error(err)
	}
	header, secret = signed("{}", time.Now().Unix()-400)
	_, err := Verify(Standard, header, []byte("{}"), []string{secret}, nil)
	if reason := reasonOf(t, err); reason != "timestamp_too_old" {
		t.Error(reason)
	}
}

func TestAWrongCallIsRejectedWithAReason(t *testing.T) {
	header, secret := signed("{}", time.Now().Unix())
	negative := -time.Second
	for _, call := range []func() (*Verified, error){
		func() (*Verified, error) { return Verify("no such contract", header, nil, []string{secret}, nil) },
		func() (*Verified, error) { return Verify(Standard, header, nil, nil, nil) },
		func() (*Verified, error) {
			return Verify(Standard, header, nil, []string{secret}, &Options{Tolerance: &negative})
		},
	} {
		_, err := call()
		if reason := reasonOf(t, err); reason != "misconfigured" {
			t.Error(reason)
		}
	}
}

func TestNoMessageRepeatsASecret(t *testing.T) {
	for contract := range contracts {
		_, err := Verify(contract, nil, nil, []string{"whsec_marker" + strings.Repeat("x", 40)}, nil)
		if err == nil || strings.Contains(err.Error(), "marker") {
			t.Error(err)
		}
	}
}
