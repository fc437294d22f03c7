import io.inboxd.Handler;
import io.inboxd.Verdict;

public final class Minimal {
    public static void main(String[] args) {
        Handler handler = Handler.builder("demo")
                .on(delivery -> {
                    System.out.println(delivery.event().type() + " "
                            + delivery.event().data().text());
                    return Verdict.done();
                })
                .build();
        handler.run();
    }
}
