"""The solvers: one integer, one linear; nothing else imports one."""
