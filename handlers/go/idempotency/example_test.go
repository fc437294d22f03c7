package idempotency_test

import (
	"database/sql"
	"fmt"
	"log"
	"net/http"

	"inboxd/idempotency"
)

// With pgx, pass idempotency.PGX(pool) and use idempotency.Tx[pgx.Tx](r).
func Example() {
	var db *sql.DB
	place := func(w http.ResponseWriter, r *http.Request) {
		tx := idempotency.Tx[*sql.Tx](r)
		var id int64
		if err := tx.QueryRowContext(r.Context(), "INSERT INTO orders DEFAULT VALUES RETURNING id").Scan(&id); err != nil {
			http.Error(w, "no order", http.StatusInternalServerError) // rolls back
			return
		}
		w.Header().Set("Location", fmt.Sprintf("/orders/%d", id))
		w.WriteHeader(http.StatusCreated)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", place)
	keyed := idempotency.Middleware(idempotency.SQL(db), idempotency.Rules{
		Scope: func(r *http.Request) (string, error) {
			user, _, _ := r.BasicAuth() // the server has checked the password before
			return user, nil
		},
	})
	log.Fatal(http.ListenAndServe("localhost:8080", keyed(mux)))
}
