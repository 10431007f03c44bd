<?php

// zerofee's rule, in PHP.

declare(strict_types=1);

const TOLERANCE_SECONDS = 300;

function verify(string $payload, string $header, string $secret): ?string
{
    $parts = [];
    foreach (explode(',', $header) as $part) {
        [$name, $value] = explode('=', $part, 2);
        $parts[$name] = $value;
    }
    if (abs(time() - (int) $parts['t']) > TOLERANCE_SECONDS) {
        return 'too old';
    }
    $expected = hash_hmac('sha256', $parts['t'] . '.' . $payload, $secret);
    return hash_equals($expected, $parts['v1']) ? null : 'wrong signature';
}

// A web server would give `php://input`; this one reads it itself, so that it can write down everything that came.
[, $portFile, $secret] = $argv;
$server = stream_socket_server('tcp://127.0.0.1:0') ?: exit(1);
file_put_contents($portFile, substr(strrchr(stream_socket_get_name($server, false), ':'), 1) . "\n");
while (true) {
    $client = @stream_socket_accept($server, 3600);
    if ($client === false) {
        continue;
    }
    [$method, $path] = explode(' ', (string) fgets($client)) + ['', ''];
    $headers = [];
    while (($line = trim((string) fgets($client))) !== '') {
        [$name, $value] = explode(':', $line, 2);
        $headers[strtolower($name)][] = trim($value);
    }
    $body = '';
    $length = (int) ($headers['content-length'][0] ?? 0);
    while (strlen($body) < $length && !feof($client)) {
        $body .= fread($client, $length - strlen($body));
    }
    $why = verify($body, $headers['x-zerofee-signature'][0] ?? 't=0,v1=', $secret);
    echo json_encode([
        'accepted' => $why === null,
        'why' => $why,
        'method' => $method,
        'path' => $path,
        'headers' => $headers,
        'body_base64' => base64_encode($body),
        'parsed' => $why === null ? json_decode($body) : null,
    ], JSON_THROW_ON_ERROR), "\n";
    $status = preg_match('#^/answer/(\d+)$#', $path, $forced) ? $forced[1] : ($why === null ? '200' : '400');
    fwrite($client, "HTTP/1.1 $status X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    fclose($client);
}
