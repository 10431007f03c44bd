<?php

// php receivers/php/test.php

declare(strict_types=1);

require __DIR__ . '/PosthasteWebhooks.php';

use Posthaste\Reason;
use Posthaste\VerificationError;
use Posthaste\Webhooks;

$checks = 0;
$failures = 0;

function check(mixed $actual, mixed $expected, string $what): void
{
    global $checks, $failures;
    $checks++;
    if ($actual !== $expected) {
        $failures++;
        echo "FAILED $what: ", var_export($actual, true), ' instead of ', var_export($expected, true), "\n";
    }
}

function reason(callable $call): string
{
    try {
        $call();
    } catch (VerificationError $error) {
        check(strlen($error->getMessage()) > 20, true, 'a message for people');
        return $error->reason->value;
    }
    return 'ok';
}

/** @return array<string, string> */
function signed(string $body, int $at): array
{
    $digest = base64_encode(hash_hmac('sha256', "id.$at.$body", str_repeat('k', 32), true));
    return ['Webhook-Id' => 'id', 'Webhook-Timestamp' => (string) $at, 'Webhook-Signature' => "v1,$digest"];
}

$vectors = json_decode((string) file_get_contents(__DIR__ . '/../vectors.json'), true, 64, JSON_THROW_ON_ERROR)['cases'];
$expect = function_exists('sodium_crypto_sign_verify_detached') ? 'expect' : 'expect_without_ed25519';
$seen = [];
foreach ($vectors as $vector) {
    $headers = [];
    foreach ($vector['headers'] as [$name, $value]) {
        $headers[$name][] = $value;
    }
    $verified = null;
    $verdict = reason(function () use ($vector, $headers, &$verified): void {
        $body = (string) base64_decode($vector['body'], true);
        $verified = Webhooks::verify(
            $vector['contract'],
            $headers,
            $body,
            $vector['secrets'],
            brand: $vector['brand'],
            now: $vector['now'],
            tolerance: $vector['tolerance'],
        );
    });
    check($verdict, $vector[$expect], $vector['name']);
    if ($verified !== null) {
        $said = ['id' => $verified->id, 'id_field' => $verified->idField, 'timestamp' => $verified->timestamp];
        check($said, $vector['verified'] ?? null, $vector['name']);
    }
    $seen[$vector[$expect]] = true;
}
foreach (Reason::cases() as $case) {
    check(isset($seen[$case->value]), true, "a vector for $case->value");
}

$secret = 'whsec_' . base64_encode(str_repeat('k', 32));
$headers = signed('{}', time());
check(Webhooks::verify('standard', $headers, '{}', $secret)->id, 'id', 'without a time the clock is asked');
$old = signed('{}', time() - 400);
check(reason(fn () => Webhooks::verify('standard', $old, '{}', [$secret])), 'timestamp_too_old', 'the clock is asked');
$wrong = [
    fn () => Webhooks::verify('no such contract', $headers, '{}', $secret),
    fn () => Webhooks::verify('standard', $headers, '{}', []),
    fn () => Webhooks::verify('standard', $headers, '{}', [null]),
    fn () => Webhooks::verify('standard', $headers, '{}', $secret, tolerance: -1),
];
foreach ($wrong as $i => $call) {
    check(reason($call), 'misconfigured', "called wrongly, $i");
}
check(reason(fn () => Webhooks::verify('standard', ['webhook-signature' => null], '', $secret)), 'missing_header', 'null');
foreach (['standard', 'sendnomi', 'zerofee', 'bastionary', 'orientedos', 'simpaisa'] as $contract) {
    try {
        Webhooks::verify($contract, [], '', ['whsec_marker' . str_repeat('x', 40)]);
        check(true, false, "$contract must refuse");
    } catch (VerificationError $error) {
        check(str_contains($error->getMessage(), 'marker'), false, 'no message repeats a secret');
    }
}

echo 'ran ', count($vectors), " vectors\n";
echo $checks - $failures, " passed, $failures failed\n";
exit($failures === 0 ? 0 : 1);
