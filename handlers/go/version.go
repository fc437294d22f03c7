package inboxd

// Version is the version of the library, and of the inboxd that it was released with.
const Version = "0.1.0"
