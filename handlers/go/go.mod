module inboxd

go 1.23
