"""What is kept beyond the server's answer: retention policies, kept sets, rules about paths."""
