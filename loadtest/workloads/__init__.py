"""Requests to send: generators and trace readers, all seeded, all streams of `base.Call`."""
