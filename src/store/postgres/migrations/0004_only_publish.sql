-- Whoever may publish may call that function and no other. These run as triggers, for which nobody has to have a right to them.
REVOKE ALL ON FUNCTION forget_locks(), forget_inbox() FROM PUBLIC;
