<?php

/**
 * Verifies webhooks sent by Posthaste. Copy this one file: PHP 8.1 or newer, nothing else.
 *
 *     $verified = Posthaste\Webhooks::verify('standard', getallheaders(), file_get_contents('php://input'), [$secret]);
 *
 * The body is passed as it arrived, byte for byte, before any parser. Several secrets may be given, so that an old and a new
 * one both work while you change over. Every failure throws a VerificationError, with a reason for programs and a message
 * for people. After Reason::Misconfigured answer 5xx (the error is on this side), after every other reason 4xx.
 *
 * ed25519 (`v1a` signatures of the contract `standard`) needs the extension sodium, which comes with PHP. Without it these
 * signatures are skipped and a `v1` one is needed.
 */

declare(strict_types=1);

namespace Posthaste;

enum Reason: string
{
    case Misconfigured = 'misconfigured';
    case MissingHeader = 'missing_header';
    case RepeatedHeader = 'repeated_header';
    case MalformedId = 'malformed_id';
    case MalformedTimestamp = 'malformed_timestamp';
    case MalformedSignature = 'malformed_signature';
    case NoUsableSignature = 'no_usable_signature';
    case SignatureMismatch = 'signature_mismatch';
    case TimestampTooOld = 'timestamp_too_old';
    case TimestampTooNew = 'timestamp_too_new';
}

/** The request must not be trusted. */
final class VerificationError extends \RuntimeException
{
    public function __construct(public readonly Reason $reason, string $message)
    {
        parent::__construct($message);
    }
}

/**
 * The values of a verified request. Deduplicate by `id`; if it is null, by the body's member `idField`.
 *
 * Not covered by the signature: the `id` of `orientedos` and the `timestamp` of `simpaisa`. An attacker with an old request of
 * these can send it again with another id or time.
 */
final class Verified
{
    public function __construct(
        public readonly ?string $id,
        public readonly ?string $idField,
        /** Unix seconds; null where the contract sends no time. */
        public readonly ?int $timestamp,
    ) {
    }
}

final class Webhooks
{
    /**
     * form: list is `v1,base64 v1,base64`, stamped is `t=1,v1=hex`, plain is `sha256=hex`.
     * key: base64 is what follows `whsec_`, decoded, text is the whole secret.
     */
    private const STANDARD =
        ['form' => 'list', 'signature' => 'webhook-signature', 'timestamp' => 'webhook-timestamp', 'id' => 'webhook-id'];
    private const STAMPED = ['form' => 'stamped', 'key' => 'text', 'signature' => 'x-{}-signature'];
    private const PLAIN = ['form' => 'plain', 'key' => 'text', 'signature' => 'x-{}-signature'];
    private const NONE = ['brand' => null, 'timestamp' => null, 'id' => null, 'id_field' => null];
    private const CONTRACTS = [
        'standard' => self::STANDARD + ['key' => 'base64'],
        'sendnomi' => self::STANDARD + ['key' => 'text'],
        'zerofee' => self::STAMPED + ['brand' => 'ZeroFee', 'id_field' => 'id'],
        'bastionary' => self::STAMPED + ['brand' => 'Bastionary', 'id_field' => 'delivery_id'],
        'orientedos' => self::PLAIN + ['brand' => 'OrientedOS', 'id' => 'x-{}-delivery-id'],
        'simpaisa' => self::PLAIN + ['brand' => 'Simpaisa', 'timestamp' => 'x-{}-timestamp', 'id_field' => 'event_id'],
    ];
    private const HEADER_MAX = 2048;

    /**
     * Returns the request's values, or throws a VerificationError.
     *
     * `orientedos` sends no time, so old requests are accepted like new ones: deduplicate.
     *
     * @param iterable<string, string|list<string>> $headers names in any case
     * @param string|list<string> $secrets
     * @param ?string $brand replaces the contract's own name in `X-{brand}-Signature`
     * @param ?int $now Unix seconds; the current time if null
     * @param int $tolerance seconds into the past and into the future
     * @throws VerificationError
     */
    public static function verify(
        string $contract,
        iterable $headers,
        string $body,
        string|array $secrets,
        ?string $brand = null,
        ?int $now = null,
        int $tolerance = 300,
    ): Verified {
        $rules = self::rules($contract, $brand);
        $keys = self::keys($rules, (array) $secrets);
        if ($tolerance < 0) {
            throw new VerificationError(Reason::Misconfigured, 'The tolerance must not be negative.');
        }

        $signature = self::header($headers, $rules['signature']);
        $id = $rules['id'] === null ? null : self::header($headers, $rules['id']);
        $stamp = $rules['timestamp'] === null ? null : self::header($headers, $rules['timestamp']);
        if (strlen($signature) > self::HEADER_MAX) {
            throw self::malformed($rules, 'at most ' . self::HEADER_MAX . ' characters long');
        }
        if ($rules['form'] === 'stamped') {
            [$stamp, $signature] = self::takeApart($signature, $rules);
        }
        if ($id !== null && !preg_match('/\A[!-~]{1,256}\z/', $id)) {
            throw new VerificationError(Reason::MalformedId, "{$rules['id']} must be 1 to 256 printable ASCII characters.");
        }
        if ($stamp !== null && !preg_match('/\A[0-9]{1,12}\z/', $stamp)) {
            $message = 'The timestamp must be whole seconds since 1970, in plain digits.';
            throw new VerificationError(Reason::MalformedTimestamp, $message);
        }

        $given = $rules['form'] === 'list' ? self::listed($signature, $rules, $keys) : [self::hex($signature, $rules)];
        $prefix = ['list' => "$id.$stamp.", 'stamped' => "$stamp.", 'plain' => ''][$rules['form']];
        self::compare($given, $keys, $prefix . $body, $rules);
        $timestamp = $stamp === null ? null : (int) $stamp;
        if ($timestamp !== null) {
            self::checkTime($timestamp, $now ?? time(), $tolerance);
        }
        return new Verified($id, $rules['id_field'], $timestamp);
    }

    /** @return array<string, ?string> */
    private static function rules(string $contract, ?string $brand): array
    {
        if (!isset(self::CONTRACTS[$contract])) {
            $known = implode(', ', array_keys(self::CONTRACTS));
            throw new VerificationError(Reason::Misconfigured, "The contract must be one of $known.");
        }
        $rules = self::CONTRACTS[$contract] + self::NONE;
        if ($rules['brand'] === null) {
            if ($brand !== null) {
                throw new VerificationError(Reason::Misconfigured, "The header names of $contract have no brand in them.");
            }
            return $rules;
        }
        $brand ??= $rules['brand'];
        if (!preg_match('/\A[A-Za-z0-9_-]{1,64}\z/', $brand)) {
            $message = 'The brand must be 1 to 64 characters out of A-Z a-z 0-9 _ -.';
            throw new VerificationError(Reason::Misconfigured, $message);
        }
        foreach (['signature', 'timestamp', 'id'] as $name) {
            $rules[$name] = $rules[$name] === null ? null : str_replace('{}', strtolower($brand), $rules[$name]);
        }
        return $rules;
    }

    /**
     * @param array<string, ?string> $rules
     * @param array<mixed> $secrets
     * @return non-empty-list<array{string, string}> version and key
     */
    private static function keys(array $rules, array $secrets): array
    {
        if ($secrets === [] || $secrets !== array_filter($secrets, 'is_string')) {
            throw new VerificationError(Reason::Misconfigured, 'Give at least one secret, as text.');
        }
        $keys = array_map($rules['key'] === 'text' ? self::textKey(...) : self::standardKey(...), array_values($secrets));
        $usable = array_values(array_filter($keys, fn (array $key): bool => $key[0] === 'v1' || self::hasEd25519()));
        if ($usable === []) {
            $message = 'The extension sodium is missing, which a whpk_ key needs: install it, or give a whsec_ secret.';
            throw new VerificationError(Reason::Misconfigured, $message);
        }
        return $usable;
    }

    private static function hasEd25519(): bool
    {
        return function_exists('sodium_crypto_sign_verify_detached');
    }

    /** @return array{string, string} */
    private static function textKey(string $secret): array
    {
        if (strlen($secret) < 16 || strlen($secret) > 512 || preg_match('/[\x00-\x1f\x7f]/', $secret)) {
            $message = 'A secret must be 16 to 512 bytes without control characters (is there a newline at its end?).';
            throw new VerificationError(Reason::Misconfigured, $message);
        }
        return ['v1', $secret];
    }

    /** @return array{string, string} */
    private static function standardKey(string $secret): array
    {
        $form = '~\A(whsec_|whpk_)((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)\z~';
        $bytes = preg_match($form, $secret, $parts) ? (string) base64_decode($parts[2], true) : '';
        if ($bytes !== '' && $parts[1] === 'whsec_' && strlen($bytes) >= 24 && strlen($bytes) <= 64) {
            return ['v1', $bytes];
        }
        if ($bytes !== '' && $parts[1] === 'whpk_' && strlen($bytes) === 32) {
            return ['v1a', $bytes];
        }
        $message = 'A secret must be whsec_ and base64 of 24 to 64 bytes, '
            . 'or whpk_ and base64 of a 32-byte ed25519 public key.';
        throw new VerificationError(Reason::Misconfigured, $message);
    }

    /** @param iterable<string, string|list<string>> $headers */
    private static function header(iterable $headers, string $name): string
    {
        $found = [];
        foreach ($headers as $key => $value) {
            if (strtolower((string) $key) === $name) {
                array_push($found, ...array_values((array) $value));
            }
        }
        if (count($found) > 1) {
            $message = "The header $name came " . count($found) . ' times; it must come once.';
            throw new VerificationError(Reason::RepeatedHeader, $message);
        }
        if (!is_string($found[0] ?? null) || $found[0] === '') {
            throw new VerificationError(Reason::MissingHeader, "The header $name is missing or empty.");
        }
        return $found[0];
    }

    /** @param array<string, ?string> $rules */
    private static function malformed(array $rules, string $expected): VerificationError
    {
        return new VerificationError(Reason::MalformedSignature, "{$rules['signature']} must be $expected.");
    }

    /**
     * @param array<string, ?string> $rules
     * @return array{string, string}
     */
    private static function takeApart(string $value, array $rules): array
    {
        $parts = explode(',', $value);
        if (count($parts) !== 2 || !str_starts_with($parts[0], 't=') || !str_starts_with($parts[1], 'v1=')) {
            throw self::malformed($rules, 't=SECONDS,v1=HEX, each once');
        }
        return [substr($parts[0], 2), substr($parts[1], 3)];
    }

    /**
     * @param array<string, ?string> $rules
     * @return array{string, string}
     */
    private static function hex(string $value, array $rules): array
    {
        if ($rules['form'] === 'plain') {
            if (!str_starts_with($value, 'sha256=')) {
                throw self::malformed($rules, 'sha256= and 64 lower-case hex digits');
            }
            $value = substr($value, 7);
        }
        if (!preg_match('/\A[0-9a-f]{64}\z/', $value)) {
            throw self::malformed($rules, 'a signature of 64 lower-case hex digits');
        }
        return ['v1', $value];
    }

    /**
     * Returns the signatures that a given key can check. Unknown versions are left out. A malformed one is an error.
     *
     * @param array<string, ?string> $rules
     * @param non-empty-list<array{string, string}> $keys
     * @return non-empty-list<array{string, string}>
     */
    private static function listed(string $value, array $rules, array $keys): array
    {
        $forms = ['v1' => '~\A[A-Za-z0-9+/]{43}=\z~', 'v1a' => '~\A[A-Za-z0-9+/]{86}==\z~'];
        $versions = array_column($keys, 0);
        $usable = [];
        foreach (explode(' ', $value) as $entry) {
            [$version, $text] = explode(',', $entry, 2) + [1 => ''];
            if ($version === '' || !preg_match($forms[$version] ?? '~\A[!-\~]+\z~', $text)) {
                throw self::malformed($rules, 'VERSION,BASE64, or several of these with single spaces between them');
            }
            if (in_array($version, $versions, true)) {
                $usable[] = [$version, $text];
            }
        }
        if ($usable === []) {
            $kinds = implode(', ', array_unique($versions));
            $message = "{$rules['signature']} has no signature of the kind that can be checked here ($kinds).";
            throw new VerificationError(Reason::NoUsableSignature, $message);
        }
        return $usable;
    }

    /**
     * @param list<array{string, string}> $given
     * @param list<array{string, string}> $keys
     * @param array<string, ?string> $rules
     */
    private static function compare(array $given, array $keys, string $signed, array $rules): void
    {
        $matches = false;
        foreach ($keys as [$version, $key]) {
            foreach ($given as [$givenVersion, $text]) {
                if ($givenVersion === $version) {
                    // All pairs are compared, each in constant time, so that the duration reveals nothing about a match.
                    $matches = self::isMade($version, $key, $signed, $text, $rules['form'] === 'list') || $matches;
                }
            }
        }
        if (!$matches) {
            $message = 'No signature was made with a secret given here: the secret is another one, the body is not the raw one, '
                . 'or somebody else sent this.';
            throw new VerificationError(Reason::SignatureMismatch, $message);
        }
    }

    private static function isMade(string $version, string $key, string $signed, string $text, bool $isBase64): bool
    {
        if ($version === 'v1a') {
            $bytes = (string) base64_decode($text, true);
            return base64_encode($bytes) === $text && sodium_crypto_sign_verify_detached($bytes, $signed, $key);
        }
        $digest = hash_hmac('sha256', $signed, $key, true);
        return hash_equals($isBase64 ? base64_encode($digest) : bin2hex($digest), $text);
    }

    private static function checkTime(int $timestamp, int $now, int $tolerance): void
    {
        if ($now - $timestamp > $tolerance) {
            $message = 'The request is ' . ($now - $timestamp) . " s old, at most $tolerance s are allowed: "
                . 'sent again, or a clock is wrong.';
            throw new VerificationError(Reason::TimestampTooOld, $message);
        }
        if ($timestamp - $now > $tolerance) {
            $message = 'The request is ' . ($timestamp - $now) . " s ahead of this clock, at most $tolerance s are allowed: "
                . 'a clock is wrong.';
            throw new VerificationError(Reason::TimestampTooNew, $message);
        }
    }
}
