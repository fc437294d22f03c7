package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"inboxd"
)

func show(_ context.Context, d *inboxd.Delivery) error {
	fmt.Printf("%s %s\n", d.Event.Type, d.Event.Data)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	handler := inboxd.NewHandler("demo")
	handler.On(inboxd.Everything, show)
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
