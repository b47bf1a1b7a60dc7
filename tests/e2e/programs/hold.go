// A client that connects and stays: `hold PORT`. Go makes its system calls itself.
package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

func main() {
	conn, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
	if err == nil {
		_, err = conn.Write([]byte("x"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("connected")
	time.Sleep(time.Minute)
}
