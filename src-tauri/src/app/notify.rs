//! System notifications for a user who is looking at something else.

/// Shows a notification. A system that shows none, or a user who allows none, is no error: the window says the same.
#[cfg(not(target_os = "macos"))]
pub(super) fn notify(title: &str, message: &str) {
    let _ = notify_rust::Notification::new()
        .appname("Anneal")
        .summary(title)
        .body(message)
        .show();
}

/// Asks whether it may, the first time, and shows a notification.
#[cfg(target_os = "macos")]
pub(super) fn notify(title: &str, message: &str) {
    use block2::RcBlock;
    use objc2::runtime::Bool;
    use objc2_foundation::{NSBundle, NSError, NSString, NSUUID};
    use objc2_user_notifications::{
        UNAuthorizationOptions, UNMutableNotificationContent, UNNotificationRequest,
        UNUserNotificationCenter,
    };

    // The system ends a program that asks for this without being an app.
    if NSBundle::mainBundle().bundleIdentifier().is_none() {
        return;
    }
    let content = UNMutableNotificationContent::new();
    content.setTitle(&NSString::from_str(title));
    content.setBody(&NSString::from_str(message));
    let id = NSUUID::UUID().UUIDString();
    let request = UNNotificationRequest::requestWithIdentifier_content_trigger(&id, &content, None);
    let center = UNUserNotificationCenter::currentNotificationCenter();
    let answered = RcBlock::new(move |may: Bool, _: *mut NSError| {
        if may.as_bool() {
            let center = UNUserNotificationCenter::currentNotificationCenter();
            center.addNotificationRequest_withCompletionHandler(&request, None);
        }
    });
    center.requestAuthorizationWithOptions_completionHandler(
        UNAuthorizationOptions::Alert,
        &answered,
    );
}
