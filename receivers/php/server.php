<?php

/**
 * A complete receiver:  mkdir received; WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:8000 server.php
 *
 * Settings, all from the environment: WEBHOOK_SECRET, WEBHOOK_SECRET_OLD (accepted too while you change over),
 * WEBHOOK_CONTRACT (standard), WEBHOOK_BRAND, DATA (the folder for what was received, ./received).
 *
 * Answers: 2xx for a request that was handled or is known already, 4xx for one that can never be accepted, 5xx to get it again.
 */

declare(strict_types=1);

require __DIR__ . '/PosthasteWebhooks.php';

use Posthaste\Reason;
use Posthaste\VerificationError;
use Posthaste\Webhooks;

// A warning printed into a response would make its status 200, so warnings are not shown and count as errors.
ini_set('display_errors', '0');
set_error_handler(function (int $level, string $message): bool {
    return (error_reporting() & $level) === 0 ? true : throw new ErrorException($message, 0, $level);
});

const BODY_BYTES_MAX = 1024 * 1024;

function setting(string $name): ?string
{
    return getenv($name) ?: null;
}

/**
 * Stores an event once. Returns false if it is stored already.
 *
 * PHP alone has no database, so a file replaces the row: its name is the unique key, and `link` creates it completely or not
 * at all, and only if the name is free. With PDO this is
 *     CREATE TABLE received (id VARCHAR(256) PRIMARY KEY, body BLOB NOT NULL)
 *     INSERT INTO received (id, body) VALUES (?, ?)   -- SQLSTATE 23000 or 23505: known already
 * between beginTransaction and commit together with the work, if that is quick. Otherwise a worker of your own processes the
 * received events, retries failures, and stores those that keep failing: your own dead letters.
 */
function keep(string $key, string $body): bool
{
    $row = (setting('DATA') ?? 'received') . '/' . hash('sha256', $key);
    $draft = $row . '.' . bin2hex(random_bytes(8));
    $file = fopen($draft, 'x') ?: throw new RuntimeException("cannot write $draft");
    try {
        if (fwrite($file, $body) !== strlen($body) || !fsync($file)) {
            throw new RuntimeException("cannot write $draft");
        }
        if (@link($draft, $row)) {
            return true;
        }
        return file_exists($row) ? false : throw new RuntimeException("cannot link $row");
    } finally {
        fclose($file);
        unlink($draft);
    }
}

/** @return array{int, string} */
function receive(): array
{
    // One byte above the limit is enough to detect a longer body.
    $input = fopen('php://input', 'r') ?: throw new RuntimeException('no input');
    $body = (string) stream_get_contents($input, BODY_BYTES_MAX + 1);
    if (strlen($body) > BODY_BYTES_MAX) {
        return [413, 'at most ' . BODY_BYTES_MAX . ' bytes'];
    }
    $secrets = array_values(array_filter([setting('WEBHOOK_SECRET'), setting('WEBHOOK_SECRET_OLD')]));
    $contract = setting('WEBHOOK_CONTRACT') ?? 'standard';
    try {
        $verified = Webhooks::verify($contract, getallheaders(), $body, $secrets, brand: setting('WEBHOOK_BRAND'));
    } catch (VerificationError $error) {
        $status = $error->reason === Reason::Misconfigured ? 500 : 400;
        return [$status, $error->reason->value . ': ' . $error->getMessage()];
    }
    // The body is parsed only after verification.
    $event = json_decode($body);
    $key = $verified->id ?? ($event instanceof stdClass ? $event->{$verified->idField} ?? null : null);
    if (!$event instanceof stdClass || !is_string($key)) {
        return [422, 'not an event that this receiver understands'];
    }
    return [200, keep($key, $body) ? 'received' : 'known already'];
}

/** @return array{int, string} */
function route(): array
{
    $data = setting('DATA') ?? 'received';
    return match ([$_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI']]) {
        ['POST', '/webhooks'] => receive(),
        ['GET', '/healthz'] => is_dir($data) && is_writable($data) ? [200, 'healthy'] : [503, "cannot write to $data"],
        default => [404, 'POST to /webhooks'],
    };
}

try {
    [$status, $text] = route();
} catch (Throwable $error) {
    // Any other error is on this side, so the sender should retry.
    error_log((string) $error);
    [$status, $text] = [500, 'trouble here, please send it again'];
}
http_response_code($status);
header('content-type: text/plain; charset=utf-8');
echo $text;
