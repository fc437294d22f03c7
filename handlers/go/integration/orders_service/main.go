// Orders_service is a service with idempotency keys for tests/languages of the repository: orders_service pgx|sql PORT. It does what
// handlers/python/tests/orders_service.py does.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"inboxd/idempotency"
)

type order struct {
	ID     int64
	Status int
	Then   string
	MS     int
}

// A service differs by its driver.
type service struct {
	db   idempotency.DB
	exec func(r *http.Request, statement string, arguments ...any) error
}

func pgxService() (service, error) {
	pool, err := pgxpool.New(context.Background(), "pool_max_conns=20")
	return service{idempotency.PGX(pool), func(r *http.Request, statement string, arguments ...any) error {
		_, err := idempotency.Tx[pgx.Tx](r).Exec(r.Context(), statement, arguments...)
		return err
	}}, err
}

func sqlService() (service, error) {
	db, err := sql.Open("pgx", "")
	return service{idempotency.SQL(db), func(r *http.Request, statement string, arguments ...any) error {
		_, err := idempotency.Tx[*sql.Tx](r).ExecContext(r.Context(), statement, arguments...)
		return err
	}}, err
}

func html() []byte {
	var text bytes.Buffer
	w := gzip.NewWriter(&text)
	_, _ = w.Write(make([]byte, 100))
	_ = w.Close()
	return append(text.Bytes(), 0, 255)
}

func (s service) make(r *http.Request, o order) error {
	if err := s.exec(r, "INSERT INTO orders (id, tenant) VALUES ($1, $2)", o.ID, r.Header.Get("X-Tenant")); err != nil {
		return err
	}
	return s.exec(r, "SELECT inbox.emit('orders', $1::text, 'order.created', '{}'::jsonb)", fmt.Sprint(o.ID))
}

func (s service) post(w http.ResponseWriter, r *http.Request) {
	var o order
	err := json.NewDecoder(r.Body).Decode(&o)
	if err == nil {
		err = s.make(r, o)
	}
	if o.Then == "slow" {
		time.Sleep(time.Duration(o.MS) * time.Millisecond)
	}
	if o.Then == "hide" {
		_ = s.exec(r, "SELECT 1 / 0")
	}
	if err == nil && o.Then == "raise" {
		err = fmt.Errorf("as the test wants it")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	switch o.Then {
	case "wait":
		time.Sleep(time.Hour)
	case "bytes":
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "x-test")
		w.Header().Add("Vary", "a")
		w.Header().Add("Vary", "b")
		text := html()
		_, _ = w.Write(text[:5])
		_, _ = w.Write(text[5:])
	case "breaks":
		fmt.Fprint(w, "one")
		panic(http.ErrAbortHandler)
	case "large":
		for range 1025 {
			_, _ = w.Write(make([]byte, 1024))
		}
	case "nothing":
		w.WriteHeader(http.StatusNoContent)
	default:
		if o.Status == 0 {
			o.Status = http.StatusCreated
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", fmt.Sprintf("/orders/%d", o.ID))
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(o.Status)
		fmt.Fprintf(w, `{"id": %d, "made": %d}`, o.ID, time.Now().UnixNano())
	}
}

func tenant(r *http.Request) (string, error) {
	if r.Header.Get("X-Tenant") == "nobody" {
		return "", errors.New("this tenant has no scope")
	}
	return r.Header.Get("X-Tenant"), nil
}

func main() {
	make := map[string]func() (service, error){"pgx": pgxService, "sql": sqlService}[os.Args[1]]
	s, err := make()
	if err != nil {
		log.Fatal(err)
	}
	keyed := idempotency.Middleware(s.db, idempotency.Rules{
		Scope: tenant, MaxBody: 100_000, Optional: os.Getenv("KEY_REQUIRED") == "no",
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.post)
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "no") })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[2], keyed(mux)))
}
