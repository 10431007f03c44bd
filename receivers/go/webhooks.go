// Package webhooks verifies webhooks sent by Posthaste. Copy this one file: Go 1.18 or newer, nothing else.
//
//	verified, err := webhooks.Verify(webhooks.Standard, request.Header, rawBody, []string{secret}, nil)
//
// rawBody is the body as it arrived, byte for byte, before any parser. Several secrets may be given, so that an old and a new
// one both work while you change over. Every error is a *VerificationError, with a Reason for programs and a message for
// people. After Misconfigured answer 5xx (the error is on this side), after every other reason 4xx.
package webhooks

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Contract says how requests are signed.
type Contract string

const (
	Standard   Contract = "standard"
	Sendnomi   Contract = "sendnomi"
	Zerofee    Contract = "zerofee"
	Bastionary Contract = "bastionary"
	OrientedOS Contract = "orientedos"
	Simpaisa   Contract = "simpaisa"
)

// Reason says why a request was refused.
type Reason string

const (
	Misconfigured      Reason = "misconfigured"
	MissingHeader      Reason = "missing_header"
	RepeatedHeader     Reason = "repeated_header"
	MalformedID        Reason = "malformed_id"
	MalformedTimestamp Reason = "malformed_timestamp"
	MalformedSignature Reason = "malformed_signature"
	NoUsableSignature  Reason = "no_usable_signature"
	SignatureMismatch  Reason = "signature_mismatch"
	TimestampTooOld    Reason = "timestamp_too_old"
	TimestampTooNew    Reason = "timestamp_too_new"
)

// VerificationError says that the request must not be trusted.
type VerificationError struct {
	Reason  Reason
	Message string
}

func (e *VerificationError) Error() string { return e.Message }

// Verified has the values of a verified request. Deduplicate by ID; if it is empty, by the body's member IDField.
//
// Not covered by the signature: the ID of OrientedOS and the Timestamp of Simpaisa. An attacker with an old request of these
// can send it again with another id or time.
type Verified struct {
	ID      string
	IDField string
	// Timestamp is in Unix seconds; nil where the contract sends no time.
	Timestamp *int64
}

// Options may be nil; each field may be left out.
type Options struct {
	// Brand replaces the contract's own name in X-{brand}-Signature.
	Brand string
	// Now is the current time if zero.
	Now time.Time
	// Tolerance reaches into the past and into the future; 5 minutes if nil.
	Tolerance *time.Duration
}

type form int

const (
	list    form = iota // v1,base64 v1,base64
	stamped             // t=1,v1=hex
	plain               // sha256=hex
)

type rules struct {
	form form
	// The text after whsec_ is decoded. Otherwise the whole secret is the key.
	isBase64                 bool
	brand                    string
	signature, timestamp, id string
	idField                  string
}

var contracts = map[Contract]rules{
	Standard:   {form: list, isBase64: true, signature: "webhook-signature", timestamp: "webhook-timestamp", id: "webhook-id"},
	Sendnomi:   {form: list, signature: "webhook-signature", timestamp: "webhook-timestamp", id: "webhook-id"},
	Zerofee:    {form: stamped, brand: "ZeroFee", signature: "x-{}-signature", idField: "id"},
	Bastionary: {form: stamped, brand: "Bastionary", signature: "x-{}-signature", idField: "delivery_id"},
	OrientedOS: {form: plain, brand: "OrientedOS", signature: "x-{}-signature", id: "x-{}-delivery-id"},
	Simpaisa:   {form: plain, brand: "Simpaisa", signature: "x-{}-signature", timestamp: "x-{}-timestamp", idField: "event_id"},
}

const headerMax = 2048

var (
	brandForm     = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,64}\z`)
	idForm        = regexp.MustCompile(`\A[!-~]{1,256}\z`)
	timestampForm = regexp.MustCompile(`\A[0-9]{1,12}\z`)
	hexForm       = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	listForms     = map[string]*regexp.Regexp{
		"v1":  regexp.MustCompile(`\A[A-Za-z0-9+/]{43}=\z`),
		"v1a": regexp.MustCompile(`\A[A-Za-z0-9+/]{86}==\z`),
	}
	unknownForm = regexp.MustCompile(`\A[!-~]+\z`)
)

// Verify returns the request's values, or why it must not be trusted. headers are a http.Header or the like.
//
// OrientedOS sends no time, so old requests are accepted like new ones: deduplicate.
func Verify(contract Contract, headers map[string][]string, body []byte, secrets []string, options *Options) (*Verified, error) {
	if options == nil {
		options = &Options{}
	}
	rules, err := rulesOf(contract, options.Brand)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(rules, secrets)
	if err != nil {
		return nil, err
	}
	tolerance := 5 * time.Minute
	if options.Tolerance != nil {
		tolerance = *options.Tolerance
	}
	if tolerance < 0 {
		return nil, fail(Misconfigured, "The tolerance must not be negative.")
	}
	request, err := read(rules, headers)
	if err != nil {
		return nil, err
	}
	given, err := signatures(rules, request.signature, keys)
	if err != nil {
		return nil, err
	}
	if !matches(rules, given, keys, append([]byte(request.prefix), body...)) {
		return nil, fail(SignatureMismatch, "No signature was made with a secret given here: the secret is another one, "+
			"the body is not the raw one, or somebody else sent this.")
	}
	verified := &Verified{ID: request.id, IDField: rules.idField}
	if request.stamp != "" {
		timestamp, _ := strconv.ParseInt(request.stamp, 10, 64)
		verified.Timestamp = &timestamp
		now := options.Now
		if now.IsZero() {
			now = time.Now()
		}
		if err := checkTime(timestamp, now.Unix(), int64(tolerance/time.Second)); err != nil {
			return nil, err
		}
	}
	return verified, nil
}

func fail(reason Reason, format string, args ...any) error {
	return &VerificationError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (r rules) malformed(expected string) error {
	return fail(MalformedSignature, "%s must be %s.", r.signature, expected)
}

func rulesOf(contract Contract, brand string) (rules, error) {
	found, known := contracts[contract]
	if !known {
		return found, fail(Misconfigured, "The contract must be one of standard, sendnomi, zerofee, bastionary, orientedos, simpaisa.")
	}
	if found.brand == "" {
		if brand != "" {
			return found, fail(Misconfigured, "The header names of %s have no brand in them.", contract)
		}
		return found, nil
	}
	if brand == "" {
		brand = found.brand
	}
	if !brandForm.MatchString(brand) {
		return found, fail(Misconfigured, "The brand must be 1 to 64 characters out of A-Z a-z 0-9 _ -.")
	}
	for _, name := range []*string{&found.signature, &found.timestamp, &found.id} {
		*name = strings.Replace(*name, "{}", strings.ToLower(brand), 1)
	}
	return found, nil
}

// key checks the signatures of its version: v1 is HMAC-SHA256, v1a is ed25519.
type key struct {
	version string
	bytes   []byte
}

func keysOf(rules rules, secrets []string) ([]key, error) {
	if len(secrets) == 0 {
		return nil, fail(Misconfigured, "Give at least one secret.")
	}
	keys := make([]key, 0, len(secrets))
	for _, secret := range secrets {
		read := textKey
		if rules.isBase64 {
			read = standardKey
		}
		key, err := read(secret)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func textKey(secret string) (key, error) {
	isControl := func(r rune) bool { return r < 0x20 || r == 0x7f }
	if len(secret) < 16 || len(secret) > 512 || strings.IndexFunc(secret, isControl) >= 0 {
		return key{}, fail(Misconfigured, "A secret must be 16 to 512 bytes without control characters (is there a newline at its end?).")
	}
	return key{"v1", []byte(secret)}, nil
}

func standardKey(secret string) (key, error) {
	prefix, encoded, _ := strings.Cut(secret, "_")
	// The decoder skips line ends; a secret has none.
	bytes, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil && !strings.ContainsAny(encoded, "\r\n") {
		if prefix == "whsec" && len(bytes) >= 24 && len(bytes) <= 64 {
			return key{"v1", bytes}, nil
		}
		if prefix == "whpk" && len(bytes) == ed25519.PublicKeySize {
			return key{"v1a", bytes}, nil
		}
	}
	return key{}, fail(Misconfigured, "A secret must be whsec_ and base64 of 24 to 64 bytes, "+
		"or whpk_ and base64 of a 32-byte ed25519 public key.")
}

func header(headers map[string][]string, name string) (string, error) {
	var found []string
	for key, values := range headers {
		if strings.EqualFold(key, name) {
			found = append(found, values...)
		}
	}
	if len(found) > 1 {
		return "", fail(RepeatedHeader, "The header %s came %d times; it must come once.", name, len(found))
	}
	if len(found) == 0 || found[0] == "" {
		return "", fail(MissingHeader, "The header %s is missing or empty.", name)
	}
	return found[0], nil
}

type request struct {
	id, stamp, signature string
	// The signed text before the body.
	prefix string
}

func read(rules rules, headers map[string][]string) (request, error) {
	var read request
	for _, wanted := range []struct {
		name string
		into *string
	}{{rules.signature, &read.signature}, {rules.id, &read.id}, {rules.timestamp, &read.stamp}} {
		if wanted.name == "" {
			continue
		}
		value, err := header(headers, wanted.name)
		if err != nil {
			return read, err
		}
		*wanted.into = value
	}
	if len(read.signature) > headerMax {
		return read, rules.malformed(fmt.Sprintf("at most %d characters long", headerMax))
	}
	if rules.form == stamped {
		parts := strings.Split(read.signature, ",")
		if len(parts) != 2 || !strings.HasPrefix(parts[0], "t=") || !strings.HasPrefix(parts[1], "v1=") {
			return read, rules.malformed("t=SECONDS,v1=HEX, each once")
		}
		read.stamp, read.signature = parts[0][2:], parts[1][3:]
	}
	if rules.id != "" && !idForm.MatchString(read.id) {
		return read, fail(MalformedID, "%s must be 1 to 256 printable ASCII characters.", rules.id)
	}
	hasTime := rules.timestamp != "" || rules.form == stamped
	if hasTime && !timestampForm.MatchString(read.stamp) {
		return read, fail(MalformedTimestamp, "The timestamp must be whole seconds since 1970, in plain digits.")
	}
	switch rules.form {
	case list:
		read.prefix = read.id + "." + read.stamp + "."
	case stamped:
		read.prefix = read.stamp + "."
	}
	return read, nil
}

type signature struct{ version, text string }

// signatures returns those that a given key can check. Unknown versions are left out. A malformed one is an error.
func signatures(rules rules, value string, keys []key) ([]signature, error) {
	if rules.form != list {
		if rules.form == plain {
			if !strings.HasPrefix(value, "sha256=") {
				return nil, rules.malformed("sha256= and 64 lower-case hex digits")
			}
			value = value[len("sha256="):]
		}
		if !hexForm.MatchString(value) {
			return nil, rules.malformed("a signature of 64 lower-case hex digits")
		}
		return []signature{{"v1", value}}, nil
	}
	var usable []signature
	for _, entry := range strings.Split(value, " ") {
		version, text, found := strings.Cut(entry, ",")
		form, known := listForms[version]
		if !known {
			form = unknownForm
		}
		if !found || version == "" || !form.MatchString(text) {
			return nil, rules.malformed("VERSION,BASE64, or several of these with single spaces between them")
		}
		for _, key := range keys {
			if key.version == version {
				usable = append(usable, signature{version, text})
				break
			}
		}
	}
	if len(usable) == 0 {
		return nil, fail(NoUsableSignature, "%s has no signature of the kind that these secrets can check.", rules.signature)
	}
	return usable, nil
}

func matches(rules rules, given []signature, keys []key, signed []byte) bool {
	found := false
	for _, key := range keys {
		for _, signature := range given {
			if signature.version == key.version {
				// All pairs are compared, each in constant time, so that the duration reveals nothing about a match.
				found = key.made(rules, signature.text, signed) || found
			}
		}
	}
	return found
}

func (k key) made(rules rules, signature string, signed []byte) bool {
	if k.version == "v1a" {
		bytes, err := base64.StdEncoding.Strict().DecodeString(signature)
		return err == nil && ed25519.Verify(k.bytes, signed, bytes)
	}
	mac := hmac.New(sha256.New, k.bytes)
	mac.Write(signed)
	expected := hex.EncodeToString(mac.Sum(nil))
	if rules.form == list {
		expected = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return hmac.Equal([]byte(expected), []byte(signature))
}

func checkTime(timestamp, now, tolerance int64) error {
	if now-timestamp > tolerance {
		return fail(TimestampTooOld, "The request is %d s old, at most %d s are allowed: sent again, or a clock is wrong.",
			now-timestamp, tolerance)
	}
	if timestamp-now > tolerance {
		return fail(TimestampTooNew, "The request is %d s ahead of this clock, at most %d s are allowed: a clock is wrong.",
			timestamp-now, tolerance)
	}
	return nil
}
