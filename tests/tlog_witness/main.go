// A witness of github.com/transparency-dev/witness with its HTTP interface, for the tests; and test vectors of its note library.
//
//	tlogwitness serve NAME LOG_VKEY...   prints its address and its vkey, serves until its standard input ends
//	tlogwitness submit VKEY URL OLD_SIZE [PROOF_HASH...]   brings the checkpoint on its standard input to that witness with the
//	                                     module's client, verifies the cosignature, and prints it
//	tlogwitness vectors                  prints a checkpoint, its signatures and its cosignature as JSON
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	cosign "github.com/transparency-dev/formats/note"
	client "github.com/transparency-dev/witness/client/http"
	"github.com/transparency-dev/witness/persistence/inmemory"
	"github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

// privateKey is the note library's form of the key made from these 32 bytes.
func privateKey(name string, seed []byte) string {
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	hash := sha256.Sum256(append([]byte(name+"\n\x01"), public...))
	secret := base64.StdEncoding.EncodeToString(append([]byte{1}, seed...))
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, binary.BigEndian.Uint32(hash[:]), secret)
}

func verifiers(keys []string) map[string]note.Verifier {
	found := map[string]note.Verifier{}
	for _, key := range keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			log.Fatalf("%s: %v", key, err)
		}
		found[verifier.Name()] = verifier
	}
	return found
}

func serve(name string, logs []string) {
	seed := sha256.Sum256([]byte(name))
	signer, err := cosign.NewSignerForCosignatureV1(privateKey(name, seed[:]))
	if err != nil {
		log.Fatal(err)
	}
	known := verifiers(logs)
	ours, err := witness.New(context.Background(), witness.Opts{
		Persistence: inmemory.New(),
		Signers:     []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			verifier, ok := known[origin]
			return verifier, ok, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	public := ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
	encoded := base64.StdEncoding.EncodeToString(append([]byte{4}, public...))
	fmt.Printf("http://%s %s+%08x+%s\n", listener.Addr(), name, signer.KeyHash(), encoded)
	http.HandleFunc("POST /add-checkpoint", witness.NewHTTPHandler(ours).AddCheckpoint)
	go func() { log.Fatal(http.Serve(listener, nil)) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func submit(vkey, address, oldSize string, hashes []string) {
	checkpoint, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	where, err := url.Parse(address)
	if err != nil {
		log.Fatal(err)
	}
	old, err := strconv.ParseUint(oldSize, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	proof := [][]byte{}
	for _, each := range hashes {
		hash, err := base64.StdEncoding.DecodeString(each)
		if err != nil {
			log.Fatal(err)
		}
		proof = append(proof, hash)
	}
	signatures, size, err := client.NewWitness(where, http.DefaultClient).Update(context.Background(), old, checkpoint, proof)
	if err != nil {
		log.Fatalf("%v (%d)", err, size)
	}
	verifier, err := cosign.NewVerifierForCosignatureV1(vkey)
	if err != nil {
		log.Fatal(err)
	}
	opened, err := note.Open(append(checkpoint, signatures...), note.VerifierList(verifier))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s%d cosignature\n", opened.Text, len(opened.Sigs))
}

func vectors() {
	text := "bailiff/pool-a/" + strings.Repeat("5a", 32) + "\n1234\n" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n"
	origin, _, _ := strings.Cut(text, "\n")
	logSeed, witnessSeed := sha256.Sum256([]byte("log")), sha256.Sum256([]byte("witness"))
	logSigner, err := note.NewSigner(privateKey(origin, logSeed[:]))
	if err != nil {
		log.Fatal(err)
	}
	witnessSigner, err := cosign.NewSignerForCosignatureV1(privateKey("witness.example/w1", witnessSeed[:]))
	if err != nil {
		log.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: text}, logSigner)
	if err != nil {
		log.Fatal(err)
	}
	cosigned, err := note.Sign(&note.Note{Text: text}, logSigner, witnessSigner)
	if err != nil {
		log.Fatal(err)
	}
	logPublic := ed25519.NewKeyFromSeed(logSeed[:]).Public().(ed25519.PublicKey)
	logKey, err := note.NewEd25519VerifierKey(origin, logPublic)
	if err != nil {
		log.Fatal(err)
	}
	witnessPublic := ed25519.NewKeyFromSeed(witnessSeed[:]).Public().(ed25519.PublicKey)
	encoded := base64.StdEncoding.EncodeToString(append([]byte{4}, witnessPublic...))
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(map[string]any{
		"log_private_key":     base64.RawURLEncoding.EncodeToString(logSeed[:]),
		"witness_private_key": base64.RawURLEncoding.EncodeToString(witnessSeed[:]),
		"log_vkey":            logKey,
		"witness_vkey":        fmt.Sprintf("witness.example/w1+%08x+%s", witnessSigner.KeyHash(), encoded),
		"checkpoint":          string(signed),
		"cosigned":            string(cosigned),
	}); err != nil {
		log.Fatal(err)
	}
}

func main() {
	switch {
	case len(os.Args) > 3 && os.Args[1] == "serve":
		serve(os.Args[2], os.Args[3:])
	case len(os.Args) > 4 && os.Args[1] == "submit":
		submit(os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
	case len(os.Args) == 2 && os.Args[1] == "vectors":
		vectors()
	default:
		log.Fatal("usage: tlogwitness serve NAME LOG_VKEY... | submit VKEY URL OLD_SIZE [PROOF_HASH...] | vectors")
	}
}
