module posthaste.example/webhooks

go 1.18
