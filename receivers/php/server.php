<?php

/**
 * A complete receiver:  mkdir received; WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:8000 server.php
 *
 * Settings, all from the environment: WEBHOOK_SECRET, WEBHOOK_SECRET_OLD (accepted too while you change over),
 * WEBHOOK_CONTRACT (standard), WEBHOOK_BRAND, DATA (the folder for what was received, ./received).
 *
 * The answers are the protocol: 2xx "done, or known already", 4xx "this one will never be right", 5xx "my fault, send it again".
 */

declare(strict_types=1);

require __DIR__ . '/PosthasteWebhooks.php';

use Posthaste\Reason;
use Posthaste\VerificationError;
use Posthaste\Webhooks;

// A warning in the middle of an answer would make it a 200: none is shown, and each is an error.
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
 * Keeps an event once and for all; false if it was here already.
 *
 * PHP alone brings no database, so a file is the row: its name is the unique key, and `link` puts it there whole or not at
 * all, and only if the name is free. With PDO this is
 *     CREATE TABLE received (id VARCHAR(256) PRIMARY KEY, body BLOB NOT NULL)
 *     INSERT INTO received (id, body) VALUES (?, ?)   -- SQLSTATE 23000 or 23505: known already
 * between beginTransaction and commit together with the work, if that is quick. Else a worker of yours goes through what was
 * received, tries again, and puts aside what it cannot do: your own dead letters.
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
    // One byte more than is allowed tells that there is more.
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
    // Only now is it worth parsing.
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
    // Whatever it is, it is ours: the sender tries again.
    error_log((string) $error);
    [$status, $text] = [500, 'trouble here, please send it again'];
}
http_response_code($status);
header('content-type: text/plain; charset=utf-8');
echo $text;
